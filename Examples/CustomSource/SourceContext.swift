import RunLoops

/// What a client keeps of a source: where its commands go, and the loop to wake for them.
struct SourceContext: Sendable {
    let source: CommandSource
    let loop: ThreadRunLoop
}
