#if CommandLine
    import ArgumentParser
    import Ports
    import PortsInspection
    import RunLoops

    struct Timeline: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Record the run loops that serve a port, and draw their passes, callouts and sleeps.",
            discussion: """
                The owner's process records for at most a minute, and keeps the newest 32,768 events of each loop. The formats: \
                html is a page for a browser, in timeline.html unless -o names a file. perfetto is a trace for \
                https://ui.perfetto.dev and Chrome, which also has the port's messages.
                """)

        enum Format: String, ExpressibleByArgument, CaseIterable { case html, perfetto, json }

        @OptionGroup var port: NameArgument
        @Option(name: .shortAndLong, seconds: "Seconds to record.")
        var seconds = Seconds(.seconds(5))
        @Option(help: "The format. (default: html)")
        var format: Format?
        @OptionGroup var file: OutputOption
        @OptionGroup var output: JSONFlag

        func validate() throws {
            if seconds.duration > .seconds(60) { throw ValidationError("A recording takes a minute at most.") }
        }

        func run() throws {
            let format = try output.format(format, json: .json, default: .html)
            let file = try file.file(default: format == .html ? "timeline.html" : "-")
            let right = try port.right(before: .now + .seconds(5))
            if let service = try? right.info(observing: .zero), service.takers.loops.isEmpty {
                throw NoLoop(name: port.name, takers: service.takerTexts)
            }
            let duration = seconds.duration
            let (recordings, events) = try awaited {
                async let events = format == .perfetto ? messages(of: right, before: .now + duration) : []
                return (try await right.recordings(for: duration), await events)
            }
            let owner = try PortNameServer.shared.registration(forName: port.name)
            if !file.isStandardOutput {
                for recording in recordings { print("\(recording.shown)") }
            }
            // A loop may be well, and not serve the port.
            if format != .json, let trouble = try? awaited({ [name = port.name] in await PortReport.trouble(of: name) })
            {
                report("“\(port.name)”: \(trouble)")
            }
            switch format {
            case .html:
                let subject = "“\(port.name)”" + (owner.map { " of process \($0.pid)" } ?? "")
                let drawing = LoopsDrawing(subject: subject, recordings: recordings)
                try file.write(Page.timeline.html(of: drawing, text: drawing.text), use: "open it in a browser")
            case .perfetto:
                let trace = LoopTrace(
                    of: port.name, owner: Int(owner?.pid ?? 0), recordings: recordings, events: events)
                try file.write(json(trace) + "\n", use: "open it in https://ui.perfetto.dev")
            case .json: try file.write(json(recordings.map(LoopDrawing.init)) + "\n")
            }
        }
    }

    /// The messages of a port until a deadline, or until the port ends; none, with a line, when the owner cannot report them.
    private func messages(of right: MachPort.SendRight, before deadline: ContinuousClock.Instant) async -> [PortEvent] {
        let monitor: PortMonitor
        do { monitor = try await PortMonitor(right, before: deadline) } catch {
            report("the trace has no messages: \(error)")
            return []
        }
        var events: [PortEvent] = []
        while let event = try? await monitor.next(before: deadline) { events.append(event) }
        return events
    }

    private struct NoLoop: Problem {
        let name: String
        let takers: [String]

        var description: String {
            let state = takers.isEmpty ? "unserved" : "served by " + takers.joined(separator: ", and by ")
            return """
                no run loop serves “\(name)”, so there is no timeline: it is \(state); portctl monitor shows its messages
                """
        }
    }
#endif
