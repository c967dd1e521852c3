import Glibc
import Ports
import RunLoops

/// The port that this process got from the activator that has started it.
///
/// A program that is a ``ServiceProgram`` needs nothing of this. Another one takes its port, says that it serves, and gives the
/// port back before it ends:
///
///     func run() async throws {
///         guard let service = try await ActivatedService.fromEnvironment() else { return }
///         try await service.ready()
///         async let serving: Void = service.port.serve { request in request.data }
///         try await service.waitUntilIdle()
///         try await service.giveBack()
///         try await serving
///     }
///
/// A service that ends without giving its port back has crashed: the activator gets the port with the messages that were not
/// taken, and the next one starts the service again. Any thread may call all methods.
public final class ActivatedService: Sendable {
    /// The port, with its name and the messages that wait. It has no handler.
    public let port: LocalMessagePort
    /// The time without a message after which the service should end; nil for a service that stays.
    public let idleTime: Duration?

    private let activator: MachPort.SendRight
    /// The port by which the activator knows this process.
    private let control: MachPort

    private init(
        _ port: LocalMessagePort, _ idleTime: Duration?, _ activator: MachPort.SendRight, _ control: MachPort
    ) {
        (self.port, self.idleTime, self.activator, self.control) = (port, idleTime, activator, control)
    }

    /// Whether an activator has started this process, and nobody has taken the port.
    package static var isOffered: Bool { getenv(ServiceMessage.variable) != nil }

    /// Takes the port. A process calls this once.
    /// - Parameters:
    ///   - nameServer: Its runtime gets the port.
    ///   - timeout: The longest wait for the activator; nil for no end.
    /// - Returns: Nil in a process that no activator has started.
    /// - Throws: `CheckInError` or `PortError` when the activator does not give the port, or has ended; and
    ///   `CancellationError`.
    public nonisolated(nonsending) static func fromEnvironment(
        nameServer: PortNameServer = .shared, timeout: Duration? = .seconds(10)
    ) async throws -> ActivatedService? {
        guard getenv(ServiceMessage.variable) != nil else { return nil }
        // A program that this one starts is no service.
        unsetenv(ServiceMessage.variable)
        let deadline = timeout.map { ContinuousClock.now + $0 }
        return try await offered(by: CheckIn.fromEnvironment(before: deadline), nameServer, before: deadline)
    }

    /// Takes the port.
    nonisolated(nonsending) static func offered(
        by checkIn: CheckIn, _ nameServer: PortNameServer, before deadline: ContinuousClock.Instant?
    ) async throws -> ActivatedService {
        let control = try MachPort(nameServer: nameServer)
        let activator = try await checkIn.complete(with: control, before: deadline)
        let end = InvalidationWatch(activator) { control.invalidate() }
        defer { end.cancel() }
        do {
            while true {
                let message = try await control.receive(before: deadline)
                guard let (right, idleTime) = ServiceMessage.lent(message) else { continue }
                let port = try await LocalMessagePort(claiming: right, nameServer: nameServer, before: deadline)
                return ActivatedService(port, idleTime, activator, control)
            }
        } catch is PortError where !activator.isValid {
            throw PortError.becameInvalid(port: activator.identity)
        }
    }

    /// Tells the activator that the service has started, before it takes its first message. A service that does not say so in
    /// time is killed.
    /// - Throws: `PortError` when the activator has ended, and `CancellationError`.
    public nonisolated(nonsending) func ready() async throws {
        try await activator.send(MachPort.Message(id: ServiceMessage.ready), before: .now + .seconds(10))
    }

    /// Suspends until no message has come for ``idleTime``, none waits, and none is being handled. Without that time, or
    /// without an activator that would start the service again, that is never.
    /// - Throws: `CancellationError`.
    public nonisolated(nonsending) func waitUntilIdle() async throws(CancellationError) {
        do {
            guard let idleTime else {
                while true { try await Task.sleep(for: .seconds(1 << 30)) }
            }
            var (taken, since) = (port.activity.taken, ContinuousClock.now)
            while true {
                try await Task.sleep(for: max(idleTime / 8, .milliseconds(1)))
                let activity = port.activity
                if activity.isBusy || activity.taken != taken || !activator.isValid {
                    (taken, since) = (activity.taken, .now)
                }
                if since + idleTime <= .now { return }
            }
        } catch {
            throw CancellationError()
        }
    }

    /// Gives the port back to the activator, with the messages that wait, and returns when every request that was taken has
    /// its reply. Then the process can end. The next message starts it again.
    /// - Parameter timeout: The longest wait; nil for no end.
    /// - Returns: False when the time was over before all replies.
    /// - Throws: `PortError` when the activator has not taken the port: the port goes on here. `CancellationError`.
    @discardableResult
    public nonisolated(nonsending) func giveBack(timeout: Duration? = nil) async throws -> Bool {
        let deadline = timeout.map { ContinuousClock.now + $0 }
        let isDone = try await port.handOver(to: activator, id: ServiceMessage.giveBack, before: deadline)
        try? await activator.send(ServiceMessage.taken(port.activity.taken), before: .now + .seconds(1))
        return isDone
    }
}
