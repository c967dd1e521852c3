import Activation
import Dispatch
import Glibc
import Ports
import RunLoopLocks

/// The port that this process got from the activator that has started it: launchd's part.
enum LentPort {
    private static let queue = DispatchQueue(label: "XPC activation")
    /// The service of this process, until a listener has it. Used on the queue.
    private static let service = Lock<ActivatedService?>(nil)

    /// Takes the port with a name. Blocks until the activator has given the port, at most ten seconds.
    /// - Returns: Nil when no activator has started this process for that name.
    static func service(_ name: String, _ nameServer: PortNameServer) throws(PortError) -> ActivatedService? {
        let found: Result<ActivatedService?, PortError> = queue.sync {
            if ActivatedService.isOffered {
                let taken = wait { try await ActivatedService.fromEnvironment(nameServer: nameServer) }
                switch taken {
                case .success(let taken): service.withLock { $0 = taken }
                case .failure(let error): return .failure(error)
                }
            }
            return .success(service.withLock { $0?.port.name == name ? $0.take() : nil })
        }
        return try found.get()
    }

    /// Tells the activator that the listener is active.
    static func ready(_ service: ActivatedService) throws(PortError) {
        try wait { try await service.ready() }.get()
    }

    /// Gives the port back, and ends the process, when no message has come for the time in the service's file, and no
    /// session is open.
    static func endWhenIdle(_ service: ActivatedService, hasSessions: @escaping @Sendable () -> Bool) {
        guard let idleTime = service.idleTime else { return }
        Task {
            while true {
                try await service.waitUntilIdle()
                if hasSessions() { continue }
                do { try await service.giveBack(timeout: .seconds(10)) } catch {
                    log.warning("the service cannot give its port back, and goes on: \(error)")
                    continue
                }
                // A session may have begun at the last moment.
                while hasSessions() { try await Task.sleep(for: max(idleTime / 8, .milliseconds(1))) }
                exit(0)
            }
        }
    }

    /// Blocks the thread until a task has ended.
    private static func wait<Value: Sendable>(
        _ body: @escaping @Sendable () async throws -> Value
    ) -> Result<Value, PortError> {
        let wait = OneShot<Result<Value, PortError>>()
        Task.detached {
            do {
                wait.set(.success(try await body()))
            } catch {
                wait.set(.failure(error as? PortError ?? .unavailable(reason: "\(error)")))
            }
        }
        return wait.block()
    }
}
