import Synchronization

/// A watch for the end of a port that does not exist. The owner's library answers on its own thread, after all earlier
/// packets. The answer comes only while the probe is kept.
struct OwnerProbe {
    private let channel: SendChannel
    let answered = Promise<Void>()

    /// Counts down from the largest number; ports count up from one.
    private static let lastNumber = Atomic<UInt64>(0)

    /// Sends the probe, now or when there is a connection to the owner.
    init(_ target: SendChannel) {
        let number = UInt64.max - Self.lastNumber.add(1, ordering: .relaxed).newValue
        var right = target.right
        right.id = PortID(incarnation: right.id.incarnation, number: number)
        channel = target.channels.channel(to: right)
        channel.onInvalidation { [answered] in answered.set(()) }
    }
}
