/// What a mode can hold.
enum Item {
    case source0(ThreadRunLoop.Source0)
    case source1(ThreadRunLoop.Source1)
    case timer(ThreadRunLoop.Timer)
    case observer(ThreadRunLoop.Observer)

    var isValid: Bool {
        switch self {
        case .source0(let source): source.isValid
        case .source1(let source): source.isValid
        case .timer(let timer): timer.isValid
        case .observer(let observer): observer.isValid
        }
    }

    /// Whether a loop may take it in: a timer or an observer is one loop's at a time.
    func mayJoin(_ loop: ThreadRunLoop) -> Bool {
        switch self {
        case .source0, .source1: isValid
        case .timer(let timer): timer.mayJoin(loop)
        case .observer(let observer): observer.mayJoin(loop)
        }
    }

    var id: ObjectIdentifier {
        switch self {
        case .source0(let source): ObjectIdentifier(source)
        case .source1(let source): ObjectIdentifier(source)
        case .timer(let timer): ObjectIdentifier(timer)
        case .observer(let observer): ObjectIdentifier(observer)
        }
    }

    /// What it is in a line of a dump or a report.
    var name: String {
        let (kind, label): (String, String?) =
            switch self {
            case .source0(let source): ("source", source.label)
            case .source1(let source): ("source of descriptor \(source.descriptor)", source.label)
            case .timer(let timer): ("timer", timer.label)
            case .observer(let observer): ("observer", observer.label)
            }
        return label.map { "\(kind) \"\($0)\"" } ?? kind
    }
}
