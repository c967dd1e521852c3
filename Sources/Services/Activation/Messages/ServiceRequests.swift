import Glibc
import TypedPorts

/// The facts about a service of an ``Activator``.
public struct ServiceStatus: Sendable, Hashable, Codable {
    /// The name of the service, and of its port.
    public var name: String
    /// The state of the service.
    public var phase: ServicePhase
    /// The description in its file, as it was last read.
    public var description: String
    /// Why it has last failed; nil when it has served since.
    public var lastFailure: String?
    /// The path of its file.
    public var file: String
    /// The path of the file that it writes its output to.
    public var log: String
    /// How often the activator has started it.
    public var startCount: Int
    /// The time since the phase began.
    public var timeInPhase: Duration
}

/// Why a command of a service, or the service itself, has failed.
public struct ServiceFailure: Error, Sendable, Hashable, Codable, CustomStringConvertible {
    /// The reason, as a sentence.
    public let text: String
    init(_ text: String) { self.text = text }
    /// The reason.
    public var description: String { text }
}

// The requests of ActivatorClient.

struct ListServices: PortRequest {
    typealias Reply = [ServiceStatus]
    static let requestName = "swift-ports.services"
}

struct ChangeService: PortRequest {
    enum Change: String, Codable { case start, stop, restart }
    typealias Reply = ServiceStatus
    typealias Failure = ServiceFailure
    static let requestName = "swift-ports.services.change"
    var name: String
    var change: Change
}

struct ReloadServices: PortRequest {
    typealias Reply = [ServiceStatus]
    typealias Failure = ServiceFailure
    static let requestName = "swift-ports.services.reload"
}
