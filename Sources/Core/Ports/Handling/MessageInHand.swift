import Glibc
import Synchronization

/// The message that a handler has, for observers of the port, because a handler that does not return cannot be asked.
/// Each taker notes the header, and a loop or a queue shows a frame of another process while it handles the frame.
struct MessageInHand: ~Copyable {
    /// The facts about the message.
    struct Note {
        let id: UInt32
        let isRequest: Bool
        /// The process that has sent the message; nil when the kernel does not say.
        var sender: Int32?
    }

    /// The id of the last message that was taken, and the bits below.
    private let last = Atomic<UInt64>(0)
    private static let isTaken: UInt64 = 1 << 32
    private static let isRequest: UInt64 = 1 << 33
    /// Stands for this process, because the kernel's answer would take longer than the message.
    private static let ownPid: Int32 = -1
    /// ``lastSender`` is the process that has sent the message.
    private static let hasSender: UInt64 = 1 << 34
    private let lastSender = Atomic<Int32>(0)

    /// The address of the frame in a handler. The lowest bit is set while somebody reads the frame.
    private let frame = Atomic<UInt>(0)
    private static let isRead: UInt = 1

    @inline(__always) func note(_ message: borrowing LocalMessage) {
        lastSender.store(message.sender?.pid ?? Self.ownPid, ordering: .relaxed)
        note(message.header, Self.hasSender)
    }

    @inline(__always) private func note(_ header: FrameHeader, _ flags: UInt64 = 0) {
        let kind = header.kind == .request ? Self.isRequest | Self.isTaken : Self.isTaken
        last.store(UInt64(header.id) | kind | flags, ordering: .relaxed)
    }

    func note(_ message: ReceivedMessage) {
        switch message {
        case .local(let message): note(message)
        case .frame(let frame): note(frame.header)
        }
    }

    /// Shows a frame to observers while `body` handles it. When several handlers run at the same time, observers see
    /// the first one's frame.
    @inline(__always) func show(_ shown: ReceivedFrame, while body: () -> Void) {
        note(shown.header)
        let address = UInt(bitPattern: Unmanaged.passUnretained(shown).toOpaque())
        let isShown = frame.compareExchange(expected: 0, desired: address, ordering: .releasing).exchanged
        body()
        if isShown, !hide(address) { waitForReader(address) }
    }

    private func hide(_ address: UInt) -> Bool {
        frame.compareExchange(expected: address, desired: 0, ordering: .acquiringAndReleasing).exchanged
    }

    /// Waits for an observer, which takes about a microsecond. A forked child has no observer, and leaves the bit as
    /// the parent's observer has set it.
    @inline(never) private func waitForReader(_ address: UInt) {
        while !hide(address), !Fork.isChild { sched_yield() }
    }

    /// Any thread may call this.
    func look() -> Note? {
        let address = frame.load(ordering: .relaxed)
        if address & Self.isRead == 0, let shown = UnsafeRawPointer(bitPattern: address),
            frame.compareExchange(expected: address, desired: address | Self.isRead, ordering: .acquiring).exchanged
        {
            // The thread that handles the frame keeps it until the bit is off.
            let note = Unmanaged<ReceivedFrame>.fromOpaque(shown)._withUnsafeGuaranteedRef { frame in
                Note(id: frame.header.id, isRequest: frame.header.kind == .request, sender: frame.sender?.pid)
            }
            frame.store(address, ordering: .releasing)
            return note
        }
        let last = last.load(ordering: .relaxed)
        if last & Self.isTaken == 0 { return nil }
        let sender = lastSender.load(ordering: .relaxed)
        return Note(
            id: UInt32(truncatingIfNeeded: last), isRequest: last & Self.isRequest != 0,
            sender: last & Self.hasSender != 0 ? (sender == Self.ownPid ? getpid() : sender) : nil)
    }
}
