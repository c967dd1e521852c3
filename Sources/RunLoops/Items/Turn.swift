import CRunLoopShims
import Synchronization

extension ThreadRunLoop {
    /// What a ``Source1`` may do in one pass of a loop.
    public struct Turn {
        /// The loop that serves the source.
        public let loop: ThreadRunLoop
        /// What the descriptor is ready for; empty when the source was raised.
        public let readiness: Readiness

        /// The source whose turn it is.
        public let source: Source1

        private let mode: Int
        private var left: Int
        private var changes: Int

        /// So many messages are handled before other sources get their turn.
        private static let batch = 64

        init(_ source: Source1, in loop: ThreadRunLoop, mode: Int, readiness: Readiness, one: Bool) {
            self.source = source
            self.loop = loop
            self.mode = mode
            self.readiness = readiness
            left = one ? 1 : Self.batch
            changes = loop.changes.load(ordering: .acquiring)
        }

        /// Whether one more message may be handled now. False when the batch is over, and as soon as the run was
        /// stopped or the source taken out of the mode: what is left waits for the next turn.
        public mutating func next() -> Bool {
            guard left > 0 else { return false }
            left -= 1
            // What a forked child would take is its parent's.
            if crl_is_forked() { return false }
            let now = loop.changes.load(ordering: .acquiring)
            if now == changes { return true }
            changes = now
            return loop.mayGoOn(source, mode: mode)
        }
    }
}
