import Chores
import NIOPosix
import RunLoops

let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
let stopped = try drive(on: eventLoop) { loop in
    // It lives as long as the program.
    _ = Unmanaged.passRetained(try startChores(for: loop))
}
try stopped.wait()
print("the loop was stopped")
