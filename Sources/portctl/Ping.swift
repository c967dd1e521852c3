import ArgumentParser
import Glibc
import Ports

struct Ping: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask a port's owner for signs of life, until interrupted.",
        discussion: """
            The library in the owner's process answers. Use request to test whether the owner handles its messages.
            """)

    @OptionGroup var port: NameArgument
    @OptionGroup var repetition: Repetition
    @Option(seconds: "Seconds to wait for each answer.")
    var timeout = Seconds(.seconds(1))
    @OptionGroup var output: JSONFlag

    func run() throws {
        let right = try port.right(before: timeout.deadline)
        let owner = try PortNameServer.shared.registration(forName: port.name)?.pid ?? 0
        if !output.isJSON { print("PING \(port.name.escaped): process \(owner)") }

        var (times, sent, failure): ([Duration], Int, PortError?) = ([], 0, nil)
        try repetition.run { number in
            sent = number
            do throws(PortError) {
                let time = try right.ping(before: timeout.deadline)
                times.append(time)
                show(sent, milliseconds(time), owner)
                return true
            } catch {
                failure = error
                show(sent, nil, owner)
                Portctl.report(error)
                if case .receiveTimedOut = error { return true }
                return false
            }
        }
        showSummary(sent, times)
        if let failure, times.isEmpty || Portctl.status(of: failure) != 3 {
            throw ExitCode(Portctl.status(of: failure))
        }
    }

    private func show(_ number: Int, _ milliseconds: String?, _ owner: pid_t) {
        if output.isJSON {
            print("\(JSON.object([("seq", .integer(number)), ("milliseconds", .number(milliseconds))]))")
        } else if let milliseconds {
            print("answer of process \(owner): seq=\(number) time=\(milliseconds) ms")
        }
    }

    private func showSummary(_ sent: Int, _ times: [Duration]) {
        let (least, most) = (times.min() ?? .zero, times.max() ?? .zero)
        let average = times.isEmpty ? .zero : times.reduce(.zero, +) / times.count
        let figures = [least, average, most].map(milliseconds)
        if output.isJSON {
            let range = zip(["min", "avg", "max"], figures).map { ($0, JSON.number(times.isEmpty ? nil : $1)) }
            print("\(JSON.object([("sent", .integer(sent)), ("answered", .integer(times.count))] + range))")
        } else {
            print("\n--- \(port.name.escaped) ping statistics ---")
            print("\(sent) sent, \(times.count) answered, \((sent - times.count) * 100 / sent)% lost")
            if !times.isEmpty { print("round trip min/avg/max = \(figures.joined(separator: "/")) ms") }
        }
    }
}
