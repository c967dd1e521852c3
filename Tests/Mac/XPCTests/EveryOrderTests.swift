import Dispatch
import Glibc
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

@testable import XPC

/// Something that happens to a session.
private enum Event: CaseIterable {
    case activate, send, reply, cancel, peerCancels, peerDies, listenerCancels, requirementFails

    /// All orders of a number of events.
    static func sequences(_ length: Int, withRepetition: Bool) -> [[Event]] {
        guard length > 0 else { return [[]] }
        return sequences(length - 1, withRepetition: withRepetition).flatMap { sequence in
            allCases.filter { withRepetition || !sequence.contains($0) }.map { sequence + [$0] }
        }
    }
}

/// The results that a sequence of events must have, in the words of the documentation.
private struct Expectation: Equatable {
    enum Phase { case inactive, active, ended }

    private(set) var phase = Phase.inactive
    private var hasListener = true
    private var isRequirementMet = true
    /// The requests that have no outcome.
    private(set) var open = 0
    /// The results of the calls, in order: whether each threw.
    private(set) var throwing: [Bool] = []
    private(set) var replies = 0
    private(set) var failures = 0
    private(set) var cancellations = 0
    /// The sessions of the listener, and how many of their cancellation handlers were called.
    private(set) var accepted = 0

    private mutating func end() {
        (failures, open, phase) = (failures + open, 0, .ended)
        cancellations += 1
    }

    mutating func note(_ event: Event) {
        switch (event, phase) {
        case (.activate, .inactive):
            throwing.append(!hasListener)
            // An activation that throws has ended the session, and says so itself.
            guard hasListener else { return phase = .ended }
            phase = .active
            accepted += 1
            if !isRequirementMet { end() }
        case (.activate, _): throwing.append(true)
        case (.send, .active):
            throwing.append(false)
            open += 1
        case (.send, _): throwing.append(true)
        case (.reply, .active) where open > 0:
            open -= 1
            if isRequirementMet {
                replies += 1
            } else {
                open += 1
                end()
            }
        case (.cancel, .inactive), (.cancel, .active), (.peerCancels, .active), (.peerDies, .active): end()
        case (.listenerCancels, _): hasListener = false
        case (.requirementFails, _): isRequirementMet = false
        case (.reply, _), (.cancel, _), (.peerCancels, _), (.peerDies, _): break
        }
    }
}

/// A session to which a sequence of events happens.
private final class Scene: Sendable {
    private let expected = Shared(Expectation())
    private let throwing = Shared<[Bool]>([])
    private let (replies, failures) = (Shared(0), Shared(0))
    private let (ends, peerEnds) = (Ends(), Ends())
    private let peers = Shared<[XPCSession]>([])
    private let kept = Shared<[XPCReceivedMessage]>([])
    private let listener: XPCListener
    private let session: XPCSession

    init(_ names: Names, _ name: String) throws {
        let (peers, kept, peerEnds) = (peers, kept, peerEnds)
        listener = try names.listener(named: name) { request in
            let (decision, session) = request.accept(
                incomingMessageHandler: { (message: XPCReceivedMessage) -> (any Encodable)? in
                    kept.withLock { $0.append(message) }
                    return nil
                }, cancellationHandler: peerEnds.handler)
            peers.withLock { $0.append(session) }
            return decision
        }
        session = try names.session(name, options: .inactive, cancellation: ends.handler)
    }

    private func perform(_ event: Event) {
        switch event {
        case .activate: noteThrowing { try session.activate() }
        case .send:
            noteThrowing {
                try session.send(Question(number: 1)) { [replies, failures] (reply: Result<Answer, any Error>) in
                    if case .success = reply { replies.withLock { $0 += 1 } } else { failures.withLock { $0 += 1 } }
                }
            }
        case .reply:
            let message = kept.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            message?.reply(Answer(text: "reply"))
        case .cancel: session.cancel(reason: "cancelled")
        case .peerCancels: peers.withLock { $0 }.first?.cancel(reason: "the peer cancels")
        case .peerDies: peers.withLock { $0 }.first?.core.state.withLock { $0.port }?.invalidateAtOnce()
        case .listenerCancels: listener.cancel()
        case .requirementFails: session.setPeerRequirement(.hasEntitlement("none"))
        }
    }

    private func noteThrowing(_ body: () throws -> Void) {
        do {
            try body()
            throwing.withLock { $0.append(false) }
        } catch {
            throwing.withLock { $0.append(true) }
        }
    }

    /// Whether all that is expected has come, and no more.
    private func isAsExpected(_ expected: Expectation) -> Bool {
        throwing.withLock { $0 } == expected.throwing && replies.withLock { $0 } == expected.replies
            && failures.withLock { $0 } == expected.failures && ends.all.count == expected.cancellations
            && peers.withLock { $0.count } == expected.accepted
            && (expected.phase != .active || areEndsReady && kept.withLock { $0.count } == expected.open)
    }

    /// Whether the handshake is over at both ends.
    private var areEndsReady: Bool {
        let isOpen = session.core.state.withLock { if case .open = $0.phase { true } else { false } }
        return isOpen && peers.withLock { $0 }.first?.core.state.withLock { $0.port } != nil
    }

    /// - Returns: A sentence when something was not as expected.
    func play(_ events: [Event]) -> String? {
        var expected = Expectation()
        for (index, event) in (events + [.cancel]).enumerated() {
            perform(event)
            expected.note(event)
            let isRight = waitUntil(before: .now + .seconds(20)) { isAsExpected(expected) }
            if !isRight {
                return """
                    event \(index) of \(events.map { "\($0)" }): expected \(expected), but thrown \(throwing.withLock { $0 }), \
                    replies \(replies.withLock { $0 }), failures \(failures.withLock { $0 }), ends \(ends.all), \
                    peers \(peers.withLock { $0.count }), kept \(kept.withLock { $0.count })
                    """
            }
        }
        listener.cancel()
        kept.withLock { $0 = [] }
        for peer in peers.withLock({ $0 }) { peer.cancel(reason: "over") }
        let arePeersEnded = waitUntil { peerEnds.all.count == expected.accepted }
        return arePeersEnded && isAsExpected(expected)
            ? nil : "the end of \(events.map { "\($0)" }): \(peerEnds.all), \(ends.all)"
    }

    /// The states behind the sessions, which have to be released.
    var cores: [Weak<SessionCore>] {
        ([session] + peers.withLock { $0 }).map { Weak($0.core) }
    }

    func forgetPeers() { peers.withLock { $0 = [] } }
}

private final class Weak<Object: AnyObject & Sendable>: Sendable {
    weak let object: Object?
    init(_ object: Object) { self.object = object }
}

/// Sessions in every order of the events of their lives: each call, request and handler has to be as written above.
@Suite(.ownThread) struct EveryOrderTests {
    private static let isLong = getenv("SOAK") != nil

    /// Plays sequences on several threads.
    private func play(_ sequences: [[Event]]) throws {
        let names = Names()
        let (next, wrong, cores) = (Shared(0), Shared<[String]>([]), Shared<[Weak<SessionCore>]>([]))
        let threads = (0..<12).map { _ in
            Helper {
                while true {
                    let index = next.withLock { next in
                        next += 1
                        return next - 1
                    }
                    guard index < sequences.count, wrong.withLock({ $0.count < 5 }) else { return }
                    do {
                        let scene = try Scene(names, "service \(index)")
                        if let text = scene.play(sequences[index]) { wrong.withLock { $0.append(text) } }
                        cores.withLock { $0 += scene.cores }
                        scene.forgetPeers()
                    } catch {
                        wrong.withLock { $0.append("\(sequences[index]): \(error)") }
                    }
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(wrong.withLock { $0 } == [])
        #expect(waitUntil { cores.withLock { $0.allSatisfy { $0.object == nil } } })
    }

    @Test(.timeLimit(.minutes(15))) func `three events in every order, also the same event again`() throws {
        try play((1...3).flatMap { Event.sequences($0, withRepetition: true) })
    }

    @Test(.timeLimit(.minutes(15))) func `four different events in every order`() throws {
        try play(Event.sequences(4, withRepetition: false))
    }

    @Test(.enabled(if: isLong), .timeLimit(.minutes(30))) func `five different events in every order`() throws {
        try play(Event.sequences(5, withRepetition: false))
    }
}
