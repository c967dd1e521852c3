import Ports
import RunLoopLocks

/// A condition on the process at the other end of a session. The corresponding C type is `xpc_peer_requirement_t`.
///
/// The kernel says which user and group a message comes from, so ``user(_:)`` and ``group(_:)`` are checked for each
/// message. Linux knows no signatures of programs, no teams and no entitlements. So requirements about them are met by
/// no process: a listener with one refuses all sessions, and a session with one ends before its first message. A program
/// that has such requirements for its life on macOS says what stands for them here: ``replaceSignatures(with:)``.
public struct XPCPeerRequirement: Sendable {
    private enum Rule: Sendable {
        case user(UInt32)
        case group(UInt32)
        /// A condition that Linux cannot check.
        case unknown(String)
    }

    private let rule: Rule

    private init(_ rule: Rule) { self.rule = rule }

    // MARK: Requirements that the kernel checks

    /// The peer runs as this effective user. Not in Apple's module.
    public static func user(_ id: UInt32) -> XPCPeerRequirement { XPCPeerRequirement(.user(id)) }

    /// The peer runs with this effective group. Not in Apple's module.
    public static func group(_ id: UInt32) -> XPCPeerRequirement { XPCPeerRequirement(.group(id)) }

    // MARK: Requirements that no process meets on Linux

    /// The program's decision about the requirements of signatures, for the whole process.
    private static let replacement = Lock<XPCPeerRequirement?>(nil)

    /// Decides what stands in this process for all requirements of signatures, teams and entitlements, instead of refusing
    /// every peer. It protects less than a signature: each program of the user, or of the group, meets it. Not in Apple's
    /// module.
    ///
    ///     import XPC
    ///
    ///     XPCPeerRequirement.replaceSignatures(with: .user(geteuid()))
    ///
    /// Call this first in the program. Any thread may call it.
    /// - Parameter requirement: ``user(_:)`` or ``group(_:)``; nil to refuse every peer again.
    public static func replaceSignatures(with requirement: XPCPeerRequirement?) {
        replacement.withLock { $0 = requirement }
    }

    /// The peer's signature has the team of this program. No process meets the requirement on Linux.
    public static func isFromSameTeam(andMatchesSigningIdentifier identifier: String? = nil) -> XPCPeerRequirement {
        XPCPeerRequirement(.unknown("the same team" + text(of: identifier)))
    }

    /// The peer is signed by the platform's maker. No process meets the requirement on Linux.
    public static func isPlatformCode(andMatchesSigningIdentifier identifier: String? = nil) -> XPCPeerRequirement {
        XPCPeerRequirement(.unknown("platform code" + text(of: identifier)))
    }

    /// The peer's signature has an entitlement. No process meets the requirement on Linux.
    public static func hasEntitlement(_ entitlement: String) -> XPCPeerRequirement {
        XPCPeerRequirement(.unknown("the entitlement \(entitlement)"))
    }

    /// The peer's signature has an entitlement with a value. No process meets the requirement on Linux.
    public static func entitlement(_ entitlement: String, matches value: Bool) -> XPCPeerRequirement {
        XPCPeerRequirement(.unknown("the entitlement \(entitlement) of \(value)"))
    }

    /// The peer's signature has an entitlement with a value. No process meets the requirement on Linux.
    public static func entitlement(_ entitlement: String, matches value: Int) -> XPCPeerRequirement {
        XPCPeerRequirement(.unknown("the entitlement \(entitlement) of \(value)"))
    }

    /// The peer's signature has an entitlement with a value. No process meets the requirement on Linux.
    public static func entitlement(_ entitlement: String, matches value: String) -> XPCPeerRequirement {
        XPCPeerRequirement(.unknown("the entitlement \(entitlement) of \(value)"))
    }

    /// The peer's signature meets a lightweight code requirement. No process meets the requirement on Linux.
    public init(lightweightCodeRequirements: XPCDictionary) {
        self.init(.unknown("the code requirement \(lightweightCodeRequirements)"))
    }

    private static func text(of identifier: String?) -> String {
        identifier.map { " and the signing identifier \($0)" } ?? ""
    }

    // MARK: Checks

    /// The reason why a sender does not meet the requirement; nil when it does.
    /// - Parameter sender: The kernel's word; nil when it does not say.
    func refusal(of sender: SenderCredentials?) -> XPCRichError? {
        switch rule {
        case .unknown(let what):
            if let replacement = Self.replacement.withLock({ $0 }), !replacement.isUnknown {
                return replacement.refusal(of: sender)
            }
            return XPCRichError(
                "the peer requirement of \(what) is never met, because Linux cannot check it: a program says what stands for it "
                    + "with XPCPeerRequirement.replaceSignatures(with:)")
        case .user(let id):
            if sender?.uid == id { return nil }
            return XPCRichError("the peer requirement of user \(id) is not met: \(Self.text(of: sender))")
        case .group(let id):
            if sender?.gid == id { return nil }
            return XPCRichError("the peer requirement of group \(id) is not met: \(Self.text(of: sender))")
        }
    }

    private var isUnknown: Bool { if case .unknown = rule { true } else { false } }

    private static func text(of sender: SenderCredentials?) -> String {
        guard let sender else { return "the kernel does not say who the peer is" }
        return "process \(sender.pid) has user \(sender.uid) and group \(sender.gid)"
    }
}

extension XPCReceivedMessage {
    /// Whether the sender meets a requirement.
    public func senderSatisfies(_ requirement: XPCPeerRequirement) -> Bool { requirement.refusal(of: sender) == nil }
}

extension XPCDictionary {
    /// Whether the sender of this dictionary meets a requirement; false when it has not come with a message.
    public func senderSatisfies(_ requirement: XPCPeerRequirement) -> Bool {
        origin?.senderSatisfies(requirement) ?? false
    }
}
