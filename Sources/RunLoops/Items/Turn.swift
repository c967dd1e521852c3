import CShims
import Synchronization

extension ThreadRunLoop {
    /// A call of a ``Source1`` in one pass of a loop, with a bound on the messages handled.
    public struct Turn {
        /// The loop that serves the source.
        public let loop: ThreadRunLoop
        /// The events that the descriptor is ready for; empty when the source was raised.
        public let readiness: Readiness

        /// The source whose turn it is.
        public let source: Source1

        private let mode: Int
        private var left: Int
        private var changes: Int

        /// The most messages that a source handles before other sources get their turn.
        private static let batch = 64

        init(_ source: Source1, in loop: ThreadRunLoop, mode: Int, readiness: Readiness, one: Bool) {
            self.source = source
            self.loop = loop
            self.mode = mode
            self.readiness = readiness
            left = one ? 1 : Self.batch
            changes = loop.changes.load(ordering: .acquiring)
        }

        /// Whether the source may handle one more message now. False when the batch is over, and as soon as the run was
        /// stopped or the source removed from the mode: the remaining messages wait for the next turn.
        public mutating func next() -> Bool {
            guard left > 0 else { return false }
            left -= 1
            // In a forked child the messages are the parent's.
            if crl_is_forked() { return false }
            let now = loop.changes.load(ordering: .acquiring)
            if now == changes { return true }
            changes = now
            return loop.mayGoOn(source, mode: mode)
        }
    }
}
