import Oracle
import OwnThread
import TestSupport
import Testing

/// The same scripts on Foundation's run loop and on ours.
@Suite(.ownThread) struct OracleTests {
    @Test(arguments: Script.all, [false, true])
    func `both loops tell the same story`(_ script: Script, isDriven: Bool) {
        var traces: (theirs: [String], ours: [String]) = ([], [])
        for _ in 0..<(script.isTimed ? 10 : 1) {
            traces = (Self.play(script) { CFStage() }, Self.play(script) { OurStage(isDriven: isDriven) })
            if traces.ours == traces.theirs { break }
        }
        #expect(traces.ours == traces.theirs)
    }

    /// The trace, which goes on until the thread has ended.
    private static func play(_ script: Script, on stage: @escaping @Sendable () -> some Stage) -> [String] {
        let (stage, count) = onThread {
            let stage = stage()
            script.play(stage)
            return (stage, stage.trace.all.count)
        }
        // At the end of the thread Foundation takes its items out in no order.
        return stage.trace.all[..<count] + ["the thread ends"] + stage.trace.all[count...].sorted()
    }
}
