@preconcurrency import Foundation  // for stderr
import Ports
import RunLoops

// The guide's listings 3-17 to 3-19: main makes a message port with a name, and a thread that is given the name finds
// it, checks in with a port of its own, and answers what main asks. (`Thread` is Foundation's.)

do {
    // Others may run this program at the same time.
    let name = "com.example.message-ports.\(ProcessInfo.processInfo.processIdentifier)"
    print("Main: I make a port with a name, give the name to a new thread, and run my loop.")
    let mainThread = MainThread()
    let port = try LocalMessagePort(name: name) { id, data in mainThread.respond(to: id, data) }
    try port.schedule(in: .main)
    Thread.detachNewThread { serve(mainPortName: name) }
    try ThreadRunLoop.main.run()
    print("Main: I am done.")
} catch {
    fputs("message-ports: \(error)\n", stderr)
    exit(1)
}
