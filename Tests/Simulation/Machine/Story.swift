import Glibc
import SimulatedCalls

/// The events of a machine: a number that two runs of one seed share, and the text, if it was asked for.
final class Story {
    private let tells: Bool
    private(set) var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    private(set) var lines: [String] = []

    init(tells: Bool = false) { self.tells = tells }

    func note(_ machine: Machine, _ what: () -> String) {
        for number in [machine.now, UInt64(machine.current.number), UInt64(machine.steps)] {
            digest = (digest ^ number) &* 0x0000_0100_0000_01b3
        }
        guard tells else { return }
        let time = Double(machine.now - 1_000_000_000_000) / 1e6
        let thread = machine.current
        print("\(milliseconds(time)) \(thread.process) \(thread.name)#\(thread.number): \(what())")
    }

    private func milliseconds(_ time: Double) -> String {
        let text = "\((time * 1000).rounded() / 1000)"
        return String(repeating: " ", count: max(0, 11 - text.utf8.count)) + text
    }

    func fail(_ machine: Machine, _ problem: String) -> Never {
        print("seed \(machine.seed), step \(machine.steps): \(problem)")
        if tells {
            for thread in machine.threads {
                let state = thread.wait == nil ? "could go on" : "waits"
                print(
                    "    \(thread.process)\(thread.process.isStopped ? " (stopped)" : "") \(thread.name)#\(thread.number) \(state)"
                )
            }
        }
        fflush(nil)
        simulated_exit(1)
        Glibc.abort()
    }
}
