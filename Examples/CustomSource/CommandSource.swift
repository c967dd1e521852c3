import RunLoops
import Synchronization

/// What a worker is asked to do.
enum Command: Sendable {
    case square(Int)
    case quit
}

/// A custom input source: any thread puts commands into its buffer, and its loop's thread carries them out.
final class CommandSource: Sendable {
    private let buffer = Mutex<[Command]>([])
    private let source = Mutex<ThreadRunLoop.Source0?>(nil)
    private let client: Client
    private let carryOut: @Sendable (Command, CommandSource) -> Void

    init(client: Client, carryOut: @escaping @Sendable (Command, CommandSource) -> Void) {
        self.client = client
        self.carryOut = carryOut
    }

    /// Adds it to a loop. Its loop tells the client, once the source is there and once it is gone.
    func add(to loop: ThreadRunLoop) {
        // Weak, for this object keeps the source.
        let source = ThreadRunLoop.Source0(
            label: "commands",
            schedule: { [weak self] loop, _ in self?.wasScheduled(in: loop) },
            cancel: { [weak self] loop, _ in self?.wasCanceled(in: loop) },
            perform: { [weak self] in self?.perform() })
        self.source.withLock { $0 = source }
        _ = try? loop.add(source)
    }

    /// Takes it out of its loop, for good.
    func invalidate() { source.withLock { $0 }?.invalidate() }

    // MARK: For clients, on any thread

    /// Puts a command into the buffer, for later.
    func addCommand(_ command: Command) { buffer.withLock { $0.append(command) } }

    /// Has all commands in the buffer carried out.
    func fireAllCommands(on loop: ThreadRunLoop) {
        source.withLock { $0 }?.signal()
        // The loop may be asleep, and a signal does not wake it.
        loop.wakeUp()
    }

    // MARK: What the loop calls

    private func wasScheduled(in loop: ThreadRunLoop) {
        let context = SourceContext(source: self, loop: loop)
        try? ThreadRunLoop.main.perform(ThreadRunLoop.mainActor { [client] in client.register(context) })
    }

    /// Waits for the client, who may be about to fire commands on a loop that is about to end.
    private func wasCanceled(in loop: ThreadRunLoop) {
        let context = SourceContext(source: self, loop: loop)
        _ = try? ThreadRunLoop.main.performAndWait(ThreadRunLoop.mainActor { [client] in client.remove(context) })
    }

    private func perform() {
        let commands = buffer.withLock { buffer in
            defer { buffer = [] }
            return buffer
        }
        print("Worker: my source was performed, with \(commands.count) in its buffer.")
        for command in commands { carryOut(command, self) }
    }
}
