import RunLoops

// A resident thread: it is there, with work or without, until it is told to stop.

struct NoSuchRoom: Error {}

print("1. A thread is started, and waits for work.")
let thread = try RunLoopThread(name: "resident")

let answer = try thread.run { 6 * 7 }
print("   It has worked something out for main, which waited: \(answer).")

do {
    try thread.run { throw NoSuchRoom() }
} catch {
    print("   What a closure throws on the thread reaches who called it: \(error).")
}

thread.loop.perform { print("   It does what nobody waits for, too;") }
thread.loop.perform {
    print("   one after the other, on its own thread: \(ThreadRunLoop.main.isCurrent ? "no" : "yes").")
}
// Blocks keep their order, so those two have been called when this one has.
try thread.run {}

print("2. It is told to stop.")
thread.stop()
print("   It has \(thread.join(before: .now + .seconds(10)) ? "ended" : "not ended").")
do {
    try thread.run { print("   This is never printed.") }
} catch {
    print("   Whoever asks it now learns that \(error).")
}

print("3. A journal has a thread of its own, and stops it when its owner lets go of it.")
func keepJournal() throws {
    let journal = try Journal()
    for day in ["Monday", "Tuesday"] { journal.write(day) }
}
try keepJournal()
print("   There is no journal any more.")
