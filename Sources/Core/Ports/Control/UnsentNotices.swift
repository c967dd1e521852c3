/// Notices about requests for peers without a connection. They wait for the next one, because askers wait for them, and
/// nobody tells them again.
struct UnsentNotices {
    /// The most notices of all peers, some of which never connect again.
    static let most = 65_536

    private var notices: [Incarnation: [ControlMessage]] = [:]
    /// The peers, from the one on that has waited longest.
    private var peers: [Incarnation] = []
    private(set) var count = 0
    private let most: Int

    init(most: Int = Self.most) { self.most = most }

    /// Adds a notice. When there are too many, the notices of the peer that has waited longest make room. That peer's own
    /// further notices are dropped.
    mutating func add(_ message: ControlMessage, for peer: Incarnation) {
        if count >= most {
            guard let oldest = peers.first, oldest != peer else { return }
            _ = take(for: oldest)
        }
        if notices[peer] == nil { peers.append(peer) }
        notices[peer, default: []].append(message)
        count += 1
    }

    /// Takes out the notices for a peer, in their order.
    mutating func take(for peer: Incarnation) -> [ControlMessage] {
        guard let taken = notices.removeValue(forKey: peer) else { return [] }
        peers.removeAll { $0 == peer }
        count -= taken.count
        return taken
    }
}
