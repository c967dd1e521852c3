import ArgumentParser
import Glibc
import Ports
import RunLoops

struct Ping: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask a port's owner for signs of life, until interrupted.",
        discussion: """
            The library in the owner's process answers. Use request to test whether the owner handles its messages.
            """)

    @OptionGroup var port: NameArgument
    @OptionGroup var repetition: Repetition
    @Option(help: "Seconds to wait for each answer.")
    var timeout = Seconds(.seconds(1))
    @OptionGroup var output: JSONFlag

    func run() throws {
        let names = PortNameServer.shared
        let right = try port.right(before: timeout.deadline)
        let owner = try names.registration(forName: port.name)?.pid ?? 0
        if !output.isJSON { print("PING \(printable(port.name)): process \(owner)") }

        let interruption = try Interruption()
        var times: [Duration] = []
        var sent = 0
        var failure: PortError?
        var next = MonotonicInstant.now
        repeat {
            sent += 1
            next = next + repetition.interval.duration
            do throws(PortError) {
                let time = try right.ping(before: timeout.deadline)
                times.append(time)
                show(sent, milliseconds(time), owner)
            } catch {
                failure = error
                show(sent, nil, owner)
                Portctl.report(error)
                guard case .receiveTimedOut = error else { break }
            }
        } while sent != repetition.count && !interruption.latch.wait(until: next)
        showSummary(sent, times)
        if let failure, times.isEmpty || Portctl.status(of: failure) != 3 {
            throw ExitCode(Portctl.status(of: failure))
        }
    }

    private func show(_ number: Int, _ milliseconds: String?, _ owner: pid_t) {
        if output.isJSON {
            let time = milliseconds.map { JSON.number($0) } ?? .null
            print("\(JSON.object([("seq", .integer(number)), ("milliseconds", time)]))")
        } else if let milliseconds {
            print("answer of process \(owner): seq=\(number) time=\(milliseconds) ms")
        }
    }

    private func showSummary(_ sent: Int, _ times: [Duration]) {
        let (least, most) = (times.min() ?? .zero, times.max() ?? .zero)
        let average = times.isEmpty ? .zero : times.reduce(.zero, +) / times.count
        let figures = [least, average, most].map(milliseconds)
        if output.isJSON {
            let range = zip(["min", "avg", "max"], figures).map { ($0, times.isEmpty ? JSON.null : .number($1)) }
            print("\(JSON.object([("sent", .integer(sent)), ("answered", .integer(times.count))] + range))")
        } else {
            print("\n--- \(printable(port.name)) ping statistics ---")
            print("\(sent) sent, \(times.count) answered, \((sent - times.count) * 100 / sent)% lost")
            if !times.isEmpty { print("round trip min/avg/max = \(figures.joined(separator: "/")) ms") }
        }
    }
}
