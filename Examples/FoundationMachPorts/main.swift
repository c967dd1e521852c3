import Foundation
import FoundationPorts

// The guide's listings 3-12 to 3-15 as they are written on macOS, with Foundation's classes in Foundation's RunLoop: main
// makes a port and launches a worker with it; the worker checks in with a port of its own, and the two talk.

print("Main: I make a port, launch a worker with it, and run my loop.")
let launcher = Launcher()
launcher.launchThread()
while !launcher.isDone, RunLoop.current.run(mode: .default, before: .distantFuture) {}
print("Main: I am done.")
