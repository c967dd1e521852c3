/// The question whether a port has taken everything that was sent before.
struct DrainProbe {
    /// The probe that has no answer yet, and how many messages had been sent before it.
    private var pending: (number: UInt64, sentCount: Int)?

    /// Whether the pending probe covers everything that was sent.
    func covers(_ sentCount: Int) -> Bool { pending?.sentCount == sentCount }

    mutating func sent(_ number: UInt64, after sentCount: Int) { pending = (number, sentCount) }

    /// The port's answer has come. Returns whether the port has taken everything.
    mutating func answered(_ number: UInt64, sentCount: Int) -> Bool {
        guard let probe = pending, probe == (number, sentCount) else { return false }
        pending = nil
        return true
    }

    /// The answer may be lost.
    mutating func forget() { pending = nil }
}
