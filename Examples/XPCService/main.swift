import Foundation
import Ports

// A service and its client with the Swift API of XPC. On macOS, launchd starts the service; here the program runs itself
// once more, and `portctl activate` or systemd would start it.

if CommandLine.arguments.count > 1 { try serve() }

// A registry directory of its own, for the demonstration.
let directory = FileManager.default.temporaryDirectory.appendingPathComponent("xpc-service-\(getpid())").path
setenv("PORTS_DIRECTORY", directory, 1)

func startService() throws -> Process {
    let service = Process()
    service.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    service.arguments = ["serve"]
    try service.run()
    _ = try PortNameServer.shared.waitForPort(forName: serviceName, before: .now + .seconds(30))
    return service
}

var service = try startService()
var client = try Client()
try client.add(23, 19)
try client.addLater(1, 2)

print("The service is killed.")
kill(service.processIdentifier, SIGKILL)
client.waitForEnd()
service.waitUntilExit()

print("Another service starts, and a new session finds it.")
service = try startService()
client = try Client()
try client.add(40, 2)
client.session.cancel(reason: "The example is over.")
client.waitForEnd()
service.terminate()
service.waitUntilExit()
try? FileManager.default.removeItem(atPath: directory)
