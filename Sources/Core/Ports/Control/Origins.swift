import Glibc

/// The numbers that other processes put in their frames. No two live peers have the same, and none can guess another's.
struct Origins {
    struct Owner: Hashable {
        let incarnation: Incarnation
        let pid: pid_t
    }

    private var owners: [UInt32: Owner] = [:]
    private let draw: @Sendable (Owner, _ attempt: Int) -> UInt32

    init(draw: @escaping @Sendable (Owner, _ attempt: Int) -> UInt32 = Self.keyedHash) { self.draw = draw }

    /// A process gets the same number on each connection, because frames of an earlier connection may still be queued.
    @Sendable static func keyedHash(of owner: Owner, _ attempt: Int) -> UInt32 {
        var hasher = Hasher()
        hasher.combine(secret)
        hasher.combine(owner)
        hasher.combine(attempt)
        return UInt32(truncatingIfNeeded: hasher.finalize())
    }

    private static let secret = UInt128.random(in: 0 ... .max)

    /// The process's number, which is never 0.
    mutating func number(of owner: Owner) -> UInt32 {
        var attempt = 0
        var number = draw(owner, attempt)
        while number == 0 || owners[number, default: owner] != owner {
            attempt += 1
            number = draw(owner, attempt)
        }
        owners[number] = owner
        return number
    }

    func owner(of number: UInt32) -> Owner? { owners[number] }

    mutating func remove(_ incarnation: Incarnation) { owners = owners.filter { $1.incarnation != incarnation } }
}
