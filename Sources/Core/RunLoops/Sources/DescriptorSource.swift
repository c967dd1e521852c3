import Glibc

extension ThreadRunLoop.Source1 {
    /// A source for a descriptor. The handler is called on the loop's thread each time the loop finds the descriptor
    /// ready, with the source and the events. The corresponding CF type is `CFFileDescriptor`.
    ///
    ///     let input = ThreadRunLoop.Source1.descriptor(0) { source, _ in
    ///         if let line = readLine() { print("read", line) } else { source.invalidate() }
    ///     }
    ///     try ThreadRunLoop.main.add(input)
    ///
    /// The loop calls the handler as long as the descriptor is ready, so it has to read, write, or invalidate the source.
    /// The handler is called once for an end (an error, a hang-up, or a peer that sends no more) when nothing is left
    /// to read. Then the source is invalid, unless its peer sends no more and it also waits for room to write.
    ///
    /// Invalidate the source before closing the descriptor, or have the source close it. After a close, the loop's
    /// duplicate keeps the file open, and the peer sees no close, until the descriptor would have been ready again. The
    /// handler is not called for another file that gets the number, unless both are eventfds or timerfds.
    ///
    /// With `closesOnInvalidation` the source closes the descriptor when the source is invalid or released, after a
    /// call of the handler in progress. Otherwise the loop waits on a duplicate and never closes the descriptor itself.
    public static func descriptor(
        _ descriptor: Int32, _ interest: ThreadRunLoop.Readiness = .readable, closesOnInvalidation: Bool = false,
        label: String? = nil, handler: @escaping @Sendable (ThreadRunLoop.Source1, ThreadRunLoop.Readiness) -> Void
    ) -> ThreadRunLoop.Source1 {
        let file = OpenFile(descriptor, isOwned: closesOnInvalidation)
        return ThreadRunLoop.Source1(
            descriptor: descriptor, interest: interest.contains(.readable) ? interest.union(.readHangUp) : interest,
            label: { label }, duplicates: !closesOnInvalidation
        ) { turn in
            let isOpen = file.isOpen
            if isOpen { handler(turn.source, turn.readiness) }
            if !file.isOpen { turn.source.invalidate() }
            return isOpen
        }
    }
}

private final class OpenFile: Sendable {
    private let descriptor: Int32
    private let isOwned: Bool
    private let identity: FileIdentity?

    init(_ descriptor: Int32, isOwned: Bool) {
        self.descriptor = descriptor
        self.isOwned = isOwned
        identity = FileIdentity(of: descriptor)
    }

    var isOpen: Bool { identity != nil && FileIdentity(of: descriptor) == identity }

    // An invalid source releases this after it has left its loops; a call of the handler retains it.
    deinit { if isOwned, isOpen { close(descriptor) } }
}
