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

    var id: ObjectIdentifier {
        switch self {
        case .source0(let source): ObjectIdentifier(source)
        case .source1(let source): ObjectIdentifier(source)
        case .timer(let timer): ObjectIdentifier(timer)
        case .observer(let observer): ObjectIdentifier(observer)
        }
    }
}
