import Glibc
import Ports
import RunLoops
import TestSupport

/// Owns a name, and changes what the registry directory's path leads to for this process alone: with "mount", by a file
/// system laid over the directory, otherwise by a change of root to the folder of that path. Then owns another name.
func changeView(_ how: String) throws -> Never {
    let tester = try test()
    let port = try MachPort()
    try PortNameServer.shared.register(port, name: "before")
    try report(port.sendRight)
    _ = try port.receive(before: .now + .seconds(30))
    if how == "mount" {
        let path = PortNameServer.shared.path
        guard mount("tmpfs", path, "tmpfs", 0, "mode=0700") == 0 else { fail("cannot mount") }
    } else {
        guard chroot(how) == 0, chdir("/") == 0 else { fail("cannot change the root") }
    }
    try PortNameServer.shared.register(port, name: "after")
    // A socket is bound by a path: here the way by `/proc`, which the new root lacks.
    let new = try MachPort()
    let isRegistered = (try? PortNameServer.shared.register(new, name: "new")) != nil
    try tester.send(MachPort.Message(id: isRegistered ? 1 : 0), before: .now + .seconds(30))
    while true { _ = withExtendedLifetime((port, new)) { pause() } }
}
