import Glibc
import Ports
import RunLoops

/// Asks the service again and again, whoever it is at the moment.
struct Client {
    let title: String

    init(_ title: String) { self.title = title }

    func run() throws -> Never {
        while true {
            say("\(title): I wait for the name.")
            // It polls nothing: the kernel tells when the name is there.
            let right = try PortNameServer.shared.waitForPort(forName: serviceName)
            do {
                try use(RemoteMessagePort(right))
            } catch PortError.isInvalid, PortError.becameInvalid, PortError.refused, PortError.unanswered {
                say("\(title): whoever had it is gone.")
            } catch PortError.sendTimedOut, PortError.receiveTimedOut {
                say("\(title): whoever has it is there, but does not answer. I try again.")
            }
        }
    }

    private func use(_ service: RemoteMessagePort) throws -> Never {
        var former: [UInt8]?
        while true {
            let answer = try service.request(id: 1, Array(title.utf8), timeout: .seconds(5))
            if answer != former { say("\(title): \(String(decoding: answer ?? [], as: UTF8.self)) answers.") }
            former = answer
            usleep(20_000)
        }
    }
}
