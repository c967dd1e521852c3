import Asking
import CGLib
import Ports

let port = try LocalMessagePort(handler: reversed)
try serve(port)
let loop = g_main_loop_new(nil, 0)
nonisolated(unsafe) let quitting = loop
// Sound: any thread may end a GMainLoop.
port.onInvalidation { g_main_loop_quit(quitting) }
let asker = try startAsking(port)
g_main_loop_run(loop)
print("the port has ended")
