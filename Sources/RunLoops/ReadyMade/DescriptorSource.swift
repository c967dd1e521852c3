extension ThreadRunLoop.Source1 {
    /// A source for a descriptor: the handler is called each time the loop finds it ready.
    ///
    /// The descriptor is told of as long as it is ready, so the handler reads or writes, or invalidates the source.
    /// An error or a hang-up is told once; then the source is removed.
    ///
    /// - Parameters:
    ///   - descriptor: The descriptor; the loop waits on a duplicate and never closes this one.
    ///   - interest: What to wait for.
    ///   - handler: Called on the loop's thread with what the descriptor is ready for.
    public static func descriptor(
        _ descriptor: Int32, _ interest: ThreadRunLoop.Readiness = .readable,
        handler: @escaping @Sendable (ThreadRunLoop.Readiness) -> Void
    ) -> ThreadRunLoop.Source1 {
        ThreadRunLoop.Source1(descriptor: descriptor, interest: interest) { turn in
            handler(turn.readiness)
            return true
        }
    }
}
