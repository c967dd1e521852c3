import CRunLoopShims
import Synchronization

/// The loops that have an item. Unowned, because a loop retains its items, and leaves them when it ends. A weak reference
/// would make each retain of the loop ten times as expensive.
final class LoopMembership: Sendable {
    private struct Member { unowned let loop: any ItemLoop }

    private let members = Mutex<[Member]>([])
    /// The address of the only loop; 0 without a loop, and ``several``. Each message to a full queue and each first message
    /// of a turn asks for it, on many threads at once. With the lock they would wait for each other.
    private let only = Atomic<UInt>(0)
    private static let several: UInt = 1

    var loops: [any ItemLoop] { members.withLock { $0.map(\.loop) } }

    /// The loop of a timer or an observer.
    var owner: (any ItemLoop)? { members.withLock { $0.first?.loop } }

    /// Whether this loop alone has the item.
    func isOnly(_ loop: LoopThread) -> Bool {
        only.load(ordering: .sequentiallyConsistent) == UInt(bitPattern: ObjectIdentifier(loop))
    }

    /// Whether the calling thread's loop alone has the item.
    var isOnlyInCurrentLoop: Bool {
        let only = only.load(ordering: .sequentiallyConsistent)
        guard only > Self.several else { return false }
        if let current = crl_thread_value() { return UInt(bitPattern: current) == only }
        // The main thread may use its loop and never have asked for it.
        return crl_thread_id() == crl_process_id() && owner?.isMain == true
    }

    var isEmpty: Bool { only.load(ordering: .sequentiallyConsistent) == 0 }

    /// False when the item may be in one loop only, and another loop has it.
    @discardableResult
    func join(_ loop: any ItemLoop, alone: Bool = false) -> Bool {
        members.withLock { members in
            if members.contains(where: { $0.loop === loop }) { return true }
            if alone, !members.isEmpty { return false }
            members.append(Member(loop: loop))
            noteOnly(members)
            return true
        }
    }

    func leave(_ loop: any ItemLoop) {
        members.withLock { members in
            members.removeAll { $0.loop === loop }
            noteOnly(members)
        }
    }

    private func noteOnly(_ members: [Member]) {
        let address =
            switch members.count {
            case 0: 0 as UInt
            case 1: UInt(bitPattern: ObjectIdentifier(members[0].loop))
            default: Self.several
            }
        only.store(address, ordering: .sequentiallyConsistent)
    }
}
