#if CommandLine
    import ArgumentParser
    import Glibc
    import RunLoops
    import Synchronization

    struct Repetition: ParsableArguments {
        @Option(name: [.short, .customShort("n"), .long], help: "How many times; without end by default.")
        var count: Int?
        @Option(name: .shortAndLong, seconds: "Seconds from one to the next.")
        var interval = Seconds(.seconds(1))

        func validate() throws { if let count, count < 1 { throw ValidationError("The count begins with 1.") } }

        /// Calls the body with 1, 2 and so on, until it returns false, the count is reached, SIGINT or SIGTERM arrives, or a
        /// key at the terminal ends the command. Calls `redraw` when the terminal's window has changed.
        func run(
            on terminal: Terminal? = nil, redraw: () -> Void = {}, _ body: (_ number: Int) throws -> Bool
        ) throws {
            let loop = ThreadRunLoop.current
            let events = Mutex<[Terminal.Event]>([])
            // The loop runs between two calls of the body. Events that occur during a call wait until then.
            for signal in [SIGINT, SIGTERM] {
                try loop.add(.signal(signal) { _ in events.withLock { $0.append(.end) } })
            }
            try terminal?.watch(in: loop) { event in events.withLock { $0.append(event) } }
            var (number, next) = (1, ContinuousClock.now)
            while try body(number), number != count {
                number += 1
                next = max(next + interval.duration, .now)
                repeat {
                    _ = try loop.run(mode: .default, before: next)
                    let new = events.withLock { events in
                        defer { events = [] }
                        return events
                    }
                    if new.contains(.end) { return }
                    if !new.isEmpty { redraw() }
                } while !next.hasPassed
            }
        }
    }
#endif
