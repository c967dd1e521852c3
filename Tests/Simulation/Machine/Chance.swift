/// The seed's numbers. Every choice of a simulated machine comes from here, so that a seed tells the whole story.
struct Chance: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 0x9e37_79b9_7f4a_7c15 &+ 0x1234_5678_9abc_def1 }

    // SplitMix64.
    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var number = state
        number = (number ^ (number >> 30)) &* 0xbf58_476d_1ce4_e5b9
        number = (number ^ (number >> 27)) &* 0x94d0_49bb_1331_11eb
        return number ^ (number >> 31)
    }

    /// A number below the bound, which is at least 1.
    mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

    /// True in one of this number of calls, on average.
    mutating func oneIn(_ calls: Int) -> Bool { below(calls) == 0 }

    mutating func number(in range: ClosedRange<Int>) -> Int { range.lowerBound + below(range.count) }

    mutating func bytes(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8(below(256)) } }

    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
}
