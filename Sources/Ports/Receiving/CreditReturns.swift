/// The bytes that a port with a byte limit has taken and not yet returned to the senders as credit.
struct CreditReturns {
    /// By the senders' origins.
    private var unreturned: [UInt32: Int] = [:]
    /// What could not be returned, because there was no connection to the sender.
    private var undelivered: [UInt32: Int] = [:]
    private let batch: Int

    /// Credit is returned in batches of an eighth of the limit, and in full when the queue is empty.
    init(byteLimit: Int) { batch = byteLimit / 8 }

    /// - Returns: The credit to return to the sender now; 0 for none.
    mutating func take(_ bytes: Int, from sender: UInt32) -> Int {
        let sum = unreturned[sender, default: 0] + bytes
        let isDue = sum >= batch
        unreturned[sender] = isDue ? nil : sum
        return isDue ? sum : 0
    }

    /// The senders with unreturned credit. More than there can be peers means that somebody makes origins up.
    var count: Int { unreturned.count }
    mutating func returnAll() -> [UInt32: Int] { exchange(&unreturned, with: [:]) }

    /// Keeps credit for the next connection to the sender.
    mutating func keep(_ bytes: Int, of sender: UInt32, most: Int) {
        if undelivered[sender] != nil || undelivered.count < most { undelivered[sender, default: 0] += bytes }
    }

    mutating func returnUndelivered() -> [UInt32: Int] { exchange(&undelivered, with: [:]) }
}
