import Foundation
import Ports
import RunLoops

// A resident thread: it is there, with work or without, until it is told to stop.

struct NoSuchRoom: Error {}

print("1. A loop without an item ends its run at once. A bare port, which nobody sends to, keeps it and its thread.")
Thread.detachNewThread {
    let loop = ThreadRunLoop.current
    do {
        try loop.run()
        print("   Thread: my loop had nothing to wait for. I add a port.")
        let port = try MachPort()
        try port.schedule(in: loop)
        try? ThreadRunLoop.main.perform {
            try? loop.perform { print("   Thread: I was given work, and wait for more.") }
            // Called behind that work. `stop()` from here would come too early for it, or before the run.
            try? loop.perform { loop.stop() }
        }
        try loop.run()
        print("   Thread: I was told to stop.")
    } catch {
        print("   Thread: \(error)")
    }
    try? ThreadRunLoop.main.perform { ThreadRunLoop.main.stop() }
}
try ThreadRunLoop.main.run()

print("2. RunLoopThread does that by itself. One is started, and waits for work.")
let thread = try RunLoopThread(name: "resident")

let answer = try thread.run { 6 * 7 }
print("   It has worked something out for main, which waited: \(answer).")

do {
    try thread.run { throw NoSuchRoom() }
} catch {
    print("   What a closure throws on the thread reaches who called it: \(error).")
}

try thread.loop.perform { print("   It does what nobody waits for, too;") }
try thread.loop.perform {
    print("   one after the other, on its own thread: \(ThreadRunLoop.main.isCurrent ? "no" : "yes").")
}
// Blocks keep their order, so those two have been called when this one has.
try thread.run {}

print("3. It is told to stop.")
thread.stop()
print("   It has \(thread.join(before: .now + .seconds(10)) ? "ended" : "not ended").")
do {
    try thread.run { print("   This is never printed.") }
} catch {
    print("   Whoever asks it now learns that \(error).")
}

print("4. A journal has a thread of its own, and stops it when its owner lets go of it.")
func keepJournal() throws {
    let journal = try Journal()
    for day in ["Monday", "Tuesday"] { journal.write(day) }
}
try keepJournal()
print("   There is no journal any more.")
