import RunLoops

/// Lives on the main thread, and gives commands to the sources that have registered with it.
@MainActor
final class Client {
    private var contexts: [SourceContext] = []

    func register(_ context: SourceContext) {
        contexts.append(context)
        print("Client: a source has registered. I put two commands into its buffer, and fire it once.")
        context.source.addCommand(.square(7))
        context.source.addCommand(.square(12))
        context.source.fireAllCommands(on: context.loop)
    }

    func receive(_ square: Int, from worker: ThreadRunLoop) {
        print("Client: I was told \(square).")
        guard square == 144, let context = contexts.first(where: { $0.loop === worker }) else { return }
        print("Client: that is all I wanted to know. I fire a command to quit.")
        context.source.addCommand(.quit)
        context.source.fireAllCommands(on: context.loop)
    }

    func remove(_ context: SourceContext) {
        contexts.removeAll { $0.source === context.source && $0.loop === context.loop }
        print("Client: the source has gone. I have \(contexts.count) left, and stop my loop.")
        ThreadRunLoop.main.stop()
    }
}
