/// The one loop that a timer or an observer belongs to while any of its modes has it. Weak: a loop retains its items,
/// not the other way round.
struct Belonging {
    private(set) weak var loop: ThreadRunLoop?
    private var modes = 0

    /// False when it is another loop's.
    mutating func join(_ loop: ThreadRunLoop) -> Bool {
        if modes > 0, self.loop !== loop { return false }
        self.loop = loop
        modes += 1
        return true
    }

    mutating func leave() {
        modes -= 1
        if modes == 0 { loop = nil }
    }
}
