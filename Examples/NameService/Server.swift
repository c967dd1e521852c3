import Glibc
import Ports
import RunLoops
import Synchronization

/// Answers whoever asks by the service's name, and forgets those who are gone.
final class Server: Sendable {
    private let title: String
    /// Who has asked, by the port that the replies go to. The rights are kept: only then is their end told.
    private let clients = Mutex<[MachPort.SendRight: String]>([:])

    init(_ title: String) { self.title = title }

    func run() throws {
        // Clients that wait for the name ask as soon as it is there.
        say("\(title): I start.")
        let port = try LocalMessagePort(name: serviceName) { [self] request in
            meet(request.message.replyPort, called: String(decoding: request.data ?? [], as: UTF8.self))
            try? request.replyRight?.reply(with: Array(title.utf8))
        }
        try port.schedule(in: .main)
        for signal in [SIGTERM, SIGINT] {
            try ThreadRunLoop.main.add(
                .signal(signal) { _ in
                    say("\(self.title): I was told to end, and give the name up.")
                    ThreadRunLoop.main.stop()
                })
        }
        try ThreadRunLoop.main.run()
        port.invalidate()
    }

    private func meet(_ right: MachPort.SendRight?, called client: String) {
        guard let right, clients.withLock({ $0.updateValue(client, forKey: right) }) == nil else { return }
        say("\(title): \(client) has come.")
        right.onInvalidation {
            try? ThreadRunLoop.main.perform {
                _ = self.clients.withLock { $0.removeValue(forKey: right) }
                say("\(self.title): \(client) has gone.")
            }
        }
    }
}
