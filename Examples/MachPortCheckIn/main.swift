import Foundation
import Ports
import RunLoops

// The guide's listings 3-12 to 3-15: main makes a port and launches a worker with it; the worker checks in with a port
// of its own, and the two talk. (`WorkerThread` does all that by itself, and notices a worker that fails to check in.
// `Thread` is Foundation's.)

print("Main: I make a port, launch a worker with it, and run my loop.")
let launcher = Launcher()
let port = try MachPort()
port.delegate = launcher
try port.schedule(in: .main)

let worker = Worker(port.sendRight)
Thread.detachNewThread { worker.main() }
try ThreadRunLoop.main.run()
print("Main: I am done.")
