/// The end of a call's wait, in the time in which its process could run.
struct WaitBound {
    private let end: UInt64
    private let process = machine.current.process
    private let lost: UInt64

    /// The threads of a machine take turns, and those of tasks may wait for others.
    private static let margin: UInt64 = 3_000_000_000

    init(_ milliseconds: Int) {
        lost = Self.lost(process)
        end = machine.now + UInt64(max(milliseconds, 0)) * 1_000_000 + Self.margin
    }

    /// The time in which the machine or the process stood still.
    private static func lost(_ process: Process) -> UInt64 { machine.slept + process.stoppedTime }

    /// - Parameter what: The end of the wait, which is now.
    func check(_ what: @autoclosure () -> String) {
        let limit = end + Self.lost(process) - lost
        if machine.now > limit { machine.fail("\(what()) \((machine.now - limit) / 1_000_000) ms late") }
    }
}
