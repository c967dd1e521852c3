import CGLib
import Chores
import RunLoops

let main = g_main_loop_new(nil, 0)
try attachLoop { g_main_loop_quit(main) }
let giver = try startChores(for: .main)
g_main_loop_run(main)
print("the loop was stopped")
