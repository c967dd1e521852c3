import Testing

/// The same scripts on Foundation's run loop and on ours.
@Suite struct OracleTests {
    @Test(arguments: Script.all)
    func `both loops tell the same story`(_ script: Script) {
        var traces: (theirs: [String], ours: [String]) = ([], [])
        for _ in 0..<(script.isTimed ? 5 : 1) {
            traces = (
                onThread { Self.play(script, on: CFStage()) }.all, onThread { Self.play(script, on: OurStage()) }.all
            )
            if traces.ours == traces.theirs { break }
        }
        #expect(traces.ours == traces.theirs)
    }

    /// The trace, which goes on until the thread has ended.
    private static func play(_ script: Script, on stage: some Stage) -> Trace {
        script.play(stage)
        return stage.trace
    }
}
