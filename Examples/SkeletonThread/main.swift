import Foundation
import RunLoops

// The guide's listing 3-2: a thread of one's own that sets up its loop, runs it until it is told to exit, and cleans up.
// (`RunLoopThread` is the same ready-made. `Thread` is Foundation's, which this library gets on with.)

let skeleton = Skeleton()
print("Main: I start a thread, and run my loop.")
Thread.detachNewThread { skeleton.main() }
try ThreadRunLoop.main.run()
print("Main: the thread has told me that it is done. So am I.")
