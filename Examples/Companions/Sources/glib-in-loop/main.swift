import CGLib
import Chores
import RunLoops

let loop = ThreadRunLoop.main
serveGLib(in: loop)
// After the chores, which take longer: the loop is idle by then.
g_timeout_add(
    20,
    { _ in
        isServed = true
        return 0
    }, nil)
nonisolated(unsafe) var isServed = false
let giver = try startChores(for: loop)
try loop.run()
if isServed { print("a timer of GLib") }
print("the loop was stopped")
