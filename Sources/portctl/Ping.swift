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
                show(sent, time, owner)
            } catch {
                failure = error
                show(sent, error)
                if case .receiveTimedOut = error { continue }
                break
            }
        } while sent != repetition.count && !interruption.latch.wait(until: next)
        showSummary(sent, times)
        if let failure, times.isEmpty || Portctl.status(of: failure) != 3 {
            throw ExitCode(Portctl.status(of: failure))
        }
    }

    private func show(_ number: Int, _ time: Duration, _ owner: pid_t) {
        if output.isJSON {
            print("\(JSON.object([("seq", .integer(number)), ("milliseconds", .number(milliseconds(time)))]))")
        } else {
            print("answer of process \(owner): seq=\(number) time=\(milliseconds(time)) ms")
        }
    }

    private func show(_ number: Int, _ error: PortError) {
        if output.isJSON {
            print("\(JSON.object([("seq", .integer(number)), ("milliseconds", .null)]))")
        }
        Portctl.report(error)
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
