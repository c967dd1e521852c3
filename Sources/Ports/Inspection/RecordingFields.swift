import RunLoops

extension RecordingPart: Fields {
    init(from reader: inout FieldReader) {
        number = reader.count()
        recording = LoopRecording(
            loop: reader.text() ?? "", start: reader.instant(), end: reader.instant(), spans: [],
            dropped: reader.count())
        recording.spans = reader.list()
    }

    func write(to writer: inout FieldWriter) {
        writer.write(number)
        writer.write(recording.loop)
        writer.write(recording.start.nanoseconds)
        writer.write(recording.end.nanoseconds)
        writer.write(recording.dropped)
        writer.write(recording.spans)
    }
}

extension LoopRecording.Span: Fields {
    init(from reader: inout FieldReader) {
        let kind = reader.number()
        let activity: LoopRecording.Activity
        switch kind {
        case 1:
            let wakeUp = reader.text().flatMap(LoopRecording.WakeUp.init)
            activity = .sleep(.init(wakeUp, isPolling: reader.flag()))
        case 2:
            let kind = reader.text().flatMap(LoopRecording.Callout.Kind.init) ?? .block
            activity = .callout(.init(kind, label: reader.text(), count: reader.count()))
        default: activity = .pass
        }
        let mode = reader.text().map { ThreadRunLoop.Mode($0) }
        self.init(
            activity, mode: mode, depth: reader.count(), start: reader.instant(), end: reader.instant(),
            isBeginningKnown: reader.flag(), isOver: reader.flag())
    }

    func write(to writer: inout FieldWriter) {
        switch activity {
        case .pass: writer.write(0)
        case .sleep(let sleep):
            writer.write(1)
            writer.write(sleep.wakeUp?.rawValue)
            writer.write(sleep.isPolling)
        case .callout(let callout):
            writer.write(2)
            writer.write(callout.kind.rawValue)
            writer.write(callout.label)
            writer.write(callout.count)
        }
        writer.write(mode?.rawValue)
        writer.write(depth)
        writer.write(start.nanoseconds)
        writer.write(end.nanoseconds)
        writer.write(isBeginningKnown)
        writer.write(isOver)
    }
}

extension FieldReader {
    fileprivate mutating func instant() -> ContinuousClock.Instant {
        ContinuousClock.Instant(nanoseconds: UInt64(bitPattern: Int64(number())))
    }
}
