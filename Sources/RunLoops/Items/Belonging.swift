/// The one loop that a timer or an observer belongs to while any of its modes has it. Weak: a loop retains its items,
/// not the other way round.
struct Belonging {
    private(set) weak var loop: ThreadRunLoop?
    private var modes = 0

    func allows(_ loop: ThreadRunLoop) -> Bool { modes == 0 || self.loop === loop }

    /// False when it is another loop's.
    mutating func join(_ loop: ThreadRunLoop) -> Bool {
        guard allows(loop) else { return false }
        self.loop = loop
        modes += 1
        return true
    }

    mutating func leave() {
        modes -= 1
        if modes == 0 { loop = nil }
    }
}
