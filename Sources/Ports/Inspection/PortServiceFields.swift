extension PortService: Fields {
    init(from reader: inout FieldReader) {
        pid = Int32(truncatingIfNeeded: reader.number())
        hasHandler = reader.flag()
        loops = reader.list()
        queue = reader.list(of: Queue.self).first
        waitingThreads = reader.count()
        waitingTasks = reader.count()
        descriptors = reader.count()
        handlingThreads = reader.count()
        observed = reader.duration() ?? .zero
        handled = reader.count()
        waitingBefore = reader.count()
        received = reader.count()
        waiting = reader.count()
        queueLimit = reader.count()
        senders = reader.list()
        awaited = reader.list()
        iteratingTasks = reader.count()
        isReceiverAway = reader.flag()
        handlers = reader.list(of: Handlers.self).first
        requestCount = reader.count()
        lastingCount = reader.count()
        requests = reader.list()
        servingTasks = reader.count()
        handling = reader.list()
    }

    func write(to writer: inout FieldWriter) {
        writer.write(pid)
        writer.write(hasHandler)
        writer.write(loops)
        writer.write(queue.map { [$0] } ?? [])
        for count in [waitingThreads, waitingTasks, descriptors, handlingThreads] { writer.write(count) }
        writer.write(observed)
        for count in [handled, waitingBefore, received, waiting, queueLimit] { writer.write(count) }
        writer.write(senders)
        writer.write(awaited)
        writer.write(iteratingTasks)
        writer.write(isReceiverAway)
        writer.write(handlers.map { [$0] } ?? [])
        for count in [requestCount, lastingCount] { writer.write(count) }
        writer.write(requests)
        writer.write(servingTasks)
        writer.write(handling)
    }
}

extension PortService.Loop: Fields {
    init(from reader: inout FieldReader) {
        thread = reader.count()
        threadName = reader.text() ?? ""
        modes = reader.list()
        running = reader.list()
        isWaiting = reader.flag()
        callout = reader.text()
        busyFor = reader.duration()
        isComputing = reader.flag()
        isBusyForLonger = reader.flag()
    }

    func write(to writer: inout FieldWriter) {
        writer.write(thread)
        writer.write(threadName)
        writer.write(modes)
        writer.write(running)
        writer.write(isWaiting)
        writer.write(callout)
        writer.write(busyFor)
        writer.write(isComputing)
        writer.write(isBusyForLonger)
    }
}

extension PortService.Queue: Fields {
    init(from reader: inout FieldReader) {
        label = reader.text() ?? ""
        isBusy = reader.flag()
    }

    func write(to writer: inout FieldWriter) {
        writer.write(label)
        writer.write(isBusy)
    }
}

extension PortService.Sender: Fields {
    init(from reader: inout FieldReader) {
        pid = Int32(truncatingIfNeeded: reader.number())
        program = reader.text()
        sent = reader.count()
        recently = reader.count()
        taken = reader.count()
        sinceEmpty = reader.count()
        hasEnded = reader.flag()
        requests = reader.count()
    }

    func write(to writer: inout FieldWriter) {
        writer.write(pid)
        writer.write(program)
        writer.write(sent)
        for count in [recently, taken, sinceEmpty] { writer.write(count) }
        writer.write(hasEnded)
        writer.write(requests)
    }
}

extension PortService.Awaited: Fields {
    init(from reader: inout FieldReader) {
        port = reader.text() ?? ""
        replies = reader.count()
        senders = reader.count()
        title = reader.text() ?? port
    }

    func write(to writer: inout FieldWriter) {
        writer.write(port)
        writer.write(replies)
        writer.write(senders)
        writer.write(title)
    }
}

extension PortService.Handlers: Fields {
    init(from reader: inout FieldReader) {
        count = reader.count()
        limit = reader.count()
        fullLane = reader.list(of: String.self).first
    }

    func write(to writer: inout FieldWriter) {
        for number in [count, limit] { writer.write(number) }
        writer.write(fullLane.map { [$0] } ?? [])
    }
}

extension PortService.Handled: Fields {
    init(from reader: inout FieldReader) {
        id = UInt32(truncatingIfNeeded: reader.number())
        name = reader.text()
        isRequest = reader.flag()
        pid = Int32(truncatingIfNeeded: reader.number())
        program = reader.text()
        age = reader.duration() ?? .zero
        isOlder = reader.flag()
    }

    func write(to writer: inout FieldWriter) {
        writer.write(id)
        writer.write(name)
        writer.write(isRequest)
        writer.write(pid)
        writer.write(program)
        writer.write(age)
        writer.write(isOlder)
    }
}

extension PortService.Request: Fields {
    init(from reader: inout FieldReader) {
        id = UInt32(truncatingIfNeeded: reader.number())
        name = reader.text()
        pid = Int32(truncatingIfNeeded: reader.number())
        program = reader.text()
        age = reader.duration() ?? .zero
        mayLast = reader.flag()
        isCancelled = reader.flag()
        isReplying = reader.flag()
    }

    func write(to writer: inout FieldWriter) {
        writer.write(id)
        writer.write(name)
        writer.write(pid)
        writer.write(program)
        writer.write(age)
        for flag in [mayLast, isCancelled, isReplying] { writer.write(flag) }
    }
}

extension String: Fields {
    init(from reader: inout FieldReader) { self = reader.text() ?? "" }
    func write(to writer: inout FieldWriter) { writer.write(self) }
}

extension PortStatistics: Fields {
    init(from reader: inout FieldReader) { self.init(received: reader.count(), waiting: reader.count()) }

    func write(to writer: inout FieldWriter) { for count in [received, waiting] { writer.write(count) } }
}
