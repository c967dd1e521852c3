/// Where a request is, as far as its asker knows, and what the asker does about that: the decisions of ``PendingReplies``.
///
/// A port goes from one home to the next, and takes along the requests that nobody has taken. A home that lives says which
/// ones. About a home that has ended, the asker asks the next one. It asks at each further home, because a request may have
/// gone along, or may have ended with a home that the asker has never heard of.
struct RequestPlace: Equatable {
    enum Stage: Hashable {
        /// The request is on its way to the home. Its sender learns what becomes of the home.
        case unsent(Doubt)
        /// The home has the request, and says what becomes of it, unless the home ends.
        case there
        /// The port has left the home, which was asked whether it still has the request.
        case doubted
        /// The home does not have the request any more, and its replies are being taken.
        case settling
        /// The home has ended, and its replies are being taken.
        case ended
        /// The home does not have the request any more, and the asker does not know the next home yet.
        case gone
        /// The home was asked for the request.
        case asked
    }

    /// The news of a home while a request was being sent there.
    enum Doubt: Hashable {
        case none
        /// The port has left it.
        case left
        /// The port, or its owner, has ended.
        case ended
    }

    /// The asker's next step.
    enum Step: Equatable {
        case nothing
        /// Ask the home, which the port has left, whether it still has the request.
        case askThere
        /// Ask at the port's next home, when there is one: ``follow(to:)``.
        case follow
        /// Take the replies that were sent before. Then ``repliesTaken(from:didEnd:)``.
        case takeReplies
        /// The request has no answer.
        case end
    }

    /// The port at its home.
    private(set) var home: PortID
    private(set) var stage = Stage.unsent(.none)

    init(_ home: PortID) { self.home = home }

    /// For tests.
    init(at home: PortID, _ stage: Stage) { (self.home, self.stage) = (home, stage) }

    var isSent: Bool { if case .unsent = stage { false } else { true } }

    // MARK: Sending

    /// The port has moved before the request was sent, which goes to another home.
    mutating func readdress(to next: PortID) {
        if !isSent { (home, stage) = (next, .unsent(.none)) }
    }

    mutating func noteSent() -> Step {
        // The home may have said more about the request before.
        guard case .unsent(let doubt) = stage else { return .nothing }
        stage = doubt == .left ? .doubted : .there
        return switch doubt {
        case .none: .nothing
        case .left: .askThere
        case .ended: .takeReplies
        }
    }

    // MARK: News of homes

    /// A home has let the request go with the port, or does not have it any more.
    mutating func movedOn(from former: PortID) -> Step {
        // About another home, the news is late, or early: the news of this home, or of its end, will come.
        guard former == home else { return .nothing }
        switch stage {
        // Perhaps it has sent the reply before.
        case .doubted:
            stage = .settling
            return .takeReplies
        case .settling, .ended: return .nothing
        case .unsent, .there, .gone, .asked:
            stage = .gone
            return .follow
        }
    }

    /// A home that was asked has the request.
    mutating func isHere(at asked: PortID) {
        if asked == home, stage == .asked || stage == .doubted { stage = .there }
    }

    /// A home says that the request has no answer, or has not come there, and so to no later home. Then a former one, which the
    /// asker does not know, may have sent the reply.
    func unanswered() -> Step {
        switch stage {
        case .unsent, .there, .doubted: .end
        case .gone, .asked, .settling, .ended: .takeReplies
        }
    }

    /// The owner of a home lives, and does not have the port any more. It may still work on the request, or the request may
    /// have been lost on its way there.
    /// - Parameter isTold: Whether the owner says so. The next one may have the port a moment before.
    mutating func portLeft(_ former: PortID, isTold: Bool = true) -> Step {
        guard former == home else { return .nothing }
        switch stage {
        case .unsent(let doubt):
            if isTold, doubt == .none { stage = .unsent(.left) }
            return .nothing
        // It says so again when no handler can take the request any more.
        case .there, .doubted:
            guard isTold else { return .nothing }
            stage = .doubted
            return .askThere
        case .settling, .ended: return .nothing
        case .gone: return .follow
        // Perhaps it has sent the reply before.
        case .asked: return .takeReplies
        }
    }

    /// The owner of a home, or the port, has ended.
    mutating func ended(_ former: PortID) -> Step {
        guard former == home else { return .nothing }
        if !isSent {
            stage = .unsent(.ended)
            return .nothing
        }
        // Late news of the home must not end the request before.
        stage = .ended
        return .takeReplies
    }

    /// All replies were taken that a home had sent.
    /// - Parameter didEnd: Whether its owner, or the port, has ended; else the port has left it.
    mutating func repliesTaken(from former: PortID, didEnd: Bool) -> Step {
        let isLeft = stage == .gone || stage == .asked || stage == .settling
        guard former == home, isSent, didEnd || isLeft else { return .nothing }
        stage = .gone
        return .follow
    }

    // MARK: Following

    /// The port's next home is known.
    /// - Returns: Whether to ask there.
    mutating func follow(to next: PortID) -> Bool {
        guard stage == .gone, next != home else { return false }
        (home, stage) = (next, .asked)
        return true
    }
}
