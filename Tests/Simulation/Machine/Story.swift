import Glibc
import SimulatedCalls

/// The events of a machine: a number that two runs of one seed share, and texts, as far as they are asked for.
final class Story {
    enum Detail {
        /// Nothing but a broken promise's line.
        case line
        /// Nothing at all: only the exit status tells.
        case none
        /// With a broken promise, the faults before it, and who did what.
        case picture
        /// Each call that others see, as it comes.
        case all
    }

    private struct Event {
        let time: UInt64
        let process: Process
        let text: String
        let isFault: Bool
    }

    private let detail: Detail
    private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    private var events: [Event] = []
    private static let mostEvents = 80

    init(_ detail: Detail = .line) { self.detail = detail }

    /// A call that others see.
    func note(_ machine: Machine, _ what: () -> String) {
        for number in [machine.now, UInt64(machine.current.number), UInt64(machine.steps)] {
            digest = (digest ^ number) &* 0x0000_0100_0000_01b3
        }
        guard detail == .all else { return }
        let thread = machine.current
        print("\(time(machine.now)) \(thread.process) \(thread.name)#\(thread.number): \(what())")
    }

    /// A fault of the seed.
    func note(fault number: Int, _ machine: Machine, _ what: () -> String) {
        note(machine) { "fault \(number): \(what())" }
        add(machine, isFault: true) { "fault \(number): \(what())" }
    }

    /// An event that helps to understand a broken promise.
    func tell(_ machine: Machine, _ what: () -> String) {
        note(machine, what)
        add(machine, isFault: false, what)
    }

    private func add(_ machine: Machine, isFault: Bool, _ what: () -> String) {
        guard detail == .picture else { return }
        events.append(Event(time: machine.now, process: machine.current.process, text: what(), isFault: isFault))
    }

    private func time(_ time: UInt64) -> String {
        let text = "\((Double(time - Machine.start) / 1e3).rounded() / 1000)"
        return String(repeating: " ", count: max(0, 11 - text.utf8.count)) + text
    }

    // MARK: A broken promise

    func fail(_ machine: Machine, _ problem: String) -> Never {
        if detail == .picture { draw(machine) }
        if detail != .none { print("seed \(machine.seed), step \(machine.steps): \(problem)") }
        if detail == .all {
            for thread in machine.threads {
                let state =
                    thread === machine.current ? "finds that" : thread.isWaiting ? "waits" : "could go on"
                let stopped = thread.process.isStopped ? " (stopped)" : ""
                print("    \(thread.process)\(stopped) \(thread.name)#\(thread.number) \(state)")
            }
            for process in machine.processes where !process.isDead {
                var counts: [String: Int] = [:]
                for file in process.descriptors.values { counts["\(file.kind)", default: 0] += 1 }
                print(
                    "    \(process): \(counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", "))"
                )
            }
        }
        fflush(nil)
        simulated_exit(1)
        Glibc.abort()
    }

    /// Draws the newest events, and all faults: a line for each, and a column for each process.
    private func draw(_ machine: Machine) {
        let newest = events.indices.suffix(Self.mostEvents).first ?? 0
        let shown = events.enumerated().filter { $0.offset >= newest || $0.element.isFault }.map(\.element)
        var columns: [Process] = []
        for event in shown where !columns.contains(where: { $0 === event.process }) { columns.append(event.process) }
        print("  milliseconds " + columns.map { $0.name.padded(to: 4) }.joined())
        for event in shown {
            let marks = columns.map { column in
                let mark = column === event.process ? event.isFault ? "×" : "●" : "│"
                return mark + "   "
            }
            print("   \(time(event.time)) \(marks.joined()) \(event.process): \(event.text)")
        }
    }
}

extension String {
    fileprivate func padded(to count: Int) -> String {
        self + String(repeating: " ", count: max(0, count - self.count))
    }
}
