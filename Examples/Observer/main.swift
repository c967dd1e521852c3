import Foundation
import RunLoops

// The observer of the guide's listing 3-1: it is told of every point that a run of the loop comes to.

print("1. An observer tells what a loop does while a timer fires and a source is performed.")
let loop = ThreadRunLoop.current

// On the loop's own thread any closure will do, one that counts in a variable too.
var passes = 0
let observer = loop.addObserver(.all) { _, activity in
    switch activity {
    case .entry: print("The run begins.")
    case .beforeTimers:
        passes += 1
        print("Pass \(passes): the loop is about to look at its timers,")
    case .beforeSources: print("  and at its sources.")
    case .beforeWaiting: print("  There is nothing to do: it is about to sleep.")
    case .afterWaiting: print("  It has woken up.")
    case .exit: print("The run ends.")
    default: break
    }
}

// Observers are told by their order, and one that does not repeat is told once.
let once = loop.addObserver(.beforeTimers, repeats: false, order: -1) { _, _ in
    print("A second observer comes first, by its order, and only once.")
}

let source = ThreadRunLoop.Source0 {
    print("  The source is performed, and stops the loop. A pass that has performed one does not sleep.")
    ThreadRunLoop.current.stop()
}
try loop.add(source)
loop.addTimer(after: .milliseconds(10)) { _ in
    print("  The timer fires, and signals the source.")
    source.signal()
}

try loop.run()
print("There were \(passes) passes. The second observer is \(once.isValid ? "still valid" : "no longer valid").")
observer.invalidate()

print("2. As in the listing: a thread attaches an observer and a timer to its loop, and runs the loop ten times.")
Thread.detachNewThread {
    do { try threadMain() } catch { print("The thread: \(error)") }
    try? ThreadRunLoop.main.perform { ThreadRunLoop.main.stop() }
}
try loop.run()
print("The thread has ended.")
