import RunLoops

/// A request that waits for its one answer.
final class AwaitedAnswer: Asked {
    enum Outcome: Sendable {
        case answer(Frame<Answer>)
        case end(AskedEnd)
    }

    let outcome = OneShot<Outcome>()

    func receive(_ answer: Frame<Answer>) -> Bool {
        outcome.set(.answer(answer))
        return true
    }

    func end(_ reason: AskedEnd) { outcome.set(.end(reason)) }

    var taken: UInt32 { 0 }
    func noteSent(_ count: UInt32) -> Bool { false }
}
