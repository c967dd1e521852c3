/// The one loop that owns a timer or an observer while any of its modes has the item. Weak: a loop retains its items,
/// not the other way round.
struct LoopOwnership {
    private(set) weak var loop: ThreadRunLoop?
    private var modes = 0

    /// False when another loop owns the item.
    mutating func join(_ loop: ThreadRunLoop) -> Bool {
        guard modes == 0 || self.loop === loop else { return false }
        self.loop = loop
        modes += 1
        return true
    }

    mutating func leave() {
        modes -= 1
        if modes == 0 { loop = nil }
    }
}
