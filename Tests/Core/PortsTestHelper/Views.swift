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
        changeRoot(how)
    }
    try PortNameServer.shared.register(port, name: "after")
    // A socket is bound by a path: here the way by `/proc`, which the new root lacks.
    let new = try MachPort()
    let isRegistered = (try? PortNameServer.shared.register(new, name: "new")) != nil
    try tester.send(MachPort.Message(id: isRegistered ? 1 : 0), before: .now + .seconds(30))
    while true { _ = withExtendedLifetime((port, new)) { pause() } }
}

private func changeRoot(_ path: String) {
    guard chroot(path) == 0, chdir("/") == 0 else { fail("cannot change the root") }
}

/// Changes its root to a folder without `/proc`, and ends with the process that owns a name.
func mourn(_ root: String) throws -> Never {
    let right = try PortNameServer.shared.port(forName: "owned", before: .now + .seconds(30))
    right.onInvalidation { exit(0) }
    let (tester, port) = (try test(), try MachPort())
    try report(port.sendRight)
    _ = try port.receive(before: .now + .seconds(30))
    changeRoot(root)
    try tester.send(MachPort.Message(id: 1), before: .now + .seconds(30))
    while true { _ = withExtendedLifetime(right) { pause() } }
}
