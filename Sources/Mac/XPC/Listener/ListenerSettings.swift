import Dispatch

/// The settings that all sessions of a listener share.
struct ListenerSettings: Sendable {
    var targetQueue: DispatchQueue?
    var requirement: XPCPeerRequirement?
    var observer: (any SessionObserver)?
}
