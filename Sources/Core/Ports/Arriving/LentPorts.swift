import Synchronization

// A port that a process, its lender, has given to another one, its borrower, and gets back when that has ended. The lender
// has a mapping of each ring to the port, and the messages that had waited before, so it finds there what was not taken.

/// The lender of a port, as the borrower's end of the port uses it.
protocol PortLender: AnyObject, Sendable {
    /// Whether the lender still waits for the port.
    var isThere: Bool { get }
    /// Hands the memory of a ring to the lender, so that what waits there outlives this process.
    /// - Parameters:
    ///   - home: The port at this process.
    ///   - then: Called with whether the lender has it, or needs it no more.
    func keep(
        _ memory: OwnedDescriptor, of peer: Incarnation, _ sender: SenderCredentials, at home: PortID,
        then: @escaping @Sendable (_ isKept: Bool) -> Void)
}

/// A port of this runtime that waits for one that was lent.
protocol StandbyPort: AnyObject, Sendable {
    /// The borrower has ended, or has given the port up.
    /// - Parameter home: The last home of the port that the caller knows.
    /// - Returns: False when nobody waits for it any more.
    func comesBack(from home: PortID) throws(PortError) -> Bool
    /// The directory in which the loan is noted; nil when it is not.
    var directory: RegistryDirectory? { get }
    /// This process has claimed the lent port as another port would be claimed.
    func hasCome(as port: any AnyObject & Sendable)
}

/// The number of messages that have come with a lent port and that were taken: memory of which lender and borrower have a
/// mapping each.
struct TakenCount: @unchecked Sendable {
    // Sound: the word is used atomically, and the reader believes nothing that cannot be.

    let memory: MappedMemory

    private var word: UnsafeMutablePointer<Atomic<UInt64>> {
        memory.start.assumingMemoryBound(to: Atomic<UInt64>.self)
    }

    init() throws(PortError) { memory = try .make(4096, mayFreeze: false) }

    /// The descriptor may be anything that a peer has handed over.
    init(_ descriptor: MessageDescriptor) throws(PortError) {
        memory = try descriptor.mapWritable()
        if memory.byteCount < 8 { throw .untrustedMemory(reason: "it has no room for a number") }
    }

    var value: Int {
        get { Int(clamping: word.pointee.load(ordering: .acquiring)) }
        nonmutating set { word.pointee.store(UInt64(newValue), ordering: .releasing) }
    }
}

/// The messages that have come with a lent port and were not taken. The port's lock guards them.
final class BorrowedMessages: @unchecked Sendable {
    // Sound: the port's lock guards all that changes.

    private let count: Int
    private let taken: TakenCount
    private(set) var left: Int

    init(_ count: Int, _ taken: TakenCount) { (self.count, self.taken, left) = (count, taken, count) }

    /// Tells the lender before the message is handled: if this process ends then, nobody handles it again.
    func take() {
        left -= 1
        taken.value = count - left
    }

    func takeAll() {
        left = 0
        taken.value = count
    }
}
