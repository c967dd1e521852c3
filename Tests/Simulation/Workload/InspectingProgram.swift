import PortsInspection

@testable import Ports

// The parts of a program that ask owners about their ports.

extension Program {
    func inspect() {
        while goesOn {
            let name =
                below(2) == 0
                ? scenario.boxName(below(scenario.nameCount)) : scenario.serverName(below(scenario.nameCount))
            let found = attempt { try names?.port(forName: name, before: after(below(2_000))) } ?? nil
            if let right = found { inspect(right) }
            pause(below(500))
        }
    }

    private func inspect(_ right: MachPort.SendRight) {
        let deadline = after(below(3_000))
        switch below(8) {
        case 0, 1: askForStatistics(right, deadline)
        case 2, 3:
            guard
                let service = attempt({
                    try right.info(observing: .milliseconds(below(600)), before: deadline)
                })
            else { return }
            _ = service.trouble
            checkTaken(service.queue.received, right)
        case 4: _ = attempt { try right.recordings(for: .milliseconds(below(500)), before: deadline) }
        case 5: _ = attempt { try right.ping(before: deadline) }
        case 6:
            wait { [self] in
                _ = try? await right.ping(before: deadline)
                _ = try? await names?.map(observing: .milliseconds(below(300)))
            }
        default: monitor(right, deadline)
        }
    }

    /// The statistics count all messages that were taken before the question.
    private func askForStatistics(_ right: MachPort.SendRight, _ deadline: ContinuousClock.Instant) {
        let before = promises.takenCount(at: right.id) ?? 0
        guard let statistics = attempt({ try right.statistics(before: deadline) }) else { return }
        if statistics.received < before, promises.takenCount(at: right.id) != nil {
            machine.fail("statistics count \(statistics.received) messages, and \(before) were taken before")
        }
        checkTaken(statistics.received, right)
    }

    /// An owner counts no more messages than were sent.
    private func checkTaken(_ count: Int, _ right: MachPort.SendRight) {
        guard !scenario.hasHostile, let begun = promises.begunCount(at: right.id), count > begun else { return }
        machine.fail("an owner counts \(count) messages at a port, and \(begun) were sent there")
    }

    /// The events of a port have rising numbers.
    private func monitor(_ right: MachPort.SendRight, _ deadline: ContinuousClock.Instant) {
        let filter = PortEvent.Filter(minimumSize: below(2) == 0 ? 0 : 1_000)
        guard let monitor = attempt({ try PortMonitor(right, filter: filter, before: deadline) }) else { return }
        var last = 0
        for _ in 0...below(60) where goesOn {
            // Nil without an event in time, and after the port's end.
            guard let event = attempt({ try monitor.next(before: after(200)) }) ?? nil else { break }
            if event.kind == .message || event.kind == .request {
                if event.number <= last { machine.fail("a monitor shows message \(event.number) after \(last)") }
                last = event.number
            }
            if event.size < filter.minimumSize { machine.fail("a monitor shows a message that its filter leaves out") }
        }
    }
}
