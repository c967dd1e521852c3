import RunLoops

// The guide's listings 3-3 to 3-9: an input source with a command buffer, on a worker's loop, for a client on the main
// thread. `CommandSource` is RunLoopSource there, `SourceContext` RunLoopContext, and `Client` the application's delegate.

let client = Client()
let source = CommandSource(client: client) { command, source in
    switch command {
    case .square(let number):
        let worker = ThreadRunLoop.current
        try? ThreadRunLoop.main.perform(
            ThreadRunLoop.mainActor { client.receive(number * number, from: worker) })
    case .quit:
        print("Worker: I take my source out of my loop.")
        source.invalidate()
    }
}

print("Main: I start a worker, whose loop gets the source, and run my own.")
let worker = try RunLoopThread(name: "worker") { loop in source.add(to: loop) }
try ThreadRunLoop.main.run()

worker.stop()
worker.join()
print("Main: the worker's thread has ended.")
