import Glibc
import RunLoops
import TestSupport

@testable import Ports

// What the registry does in a process that has no descriptor left.

private func withoutDescriptors<R>(_ body: () throws -> R) rethrows -> R {
    var hoard: [Int32] = []
    while case let taken = open("/dev/null", O_RDONLY | O_CLOEXEC), taken >= 0 { hoard.append(taken) }
    defer { for taken in hoard { close(taken) } }
    return try body()
}

/// A process that cannot look at its name's entry does not remove it.
func keepNameWithoutDescriptors() throws -> Never {
    let port = try MachPort()
    let names = PortNameServer.shared
    try names.register(port, name: "kept")
    let directory = try names.registryDirectory()
    let (folder, aside) = (names.path + "/names/kept", names.path + "/names/aside")
    let entry = folder + "/" + port.id.file
    withoutDescriptors {
        // As if somebody had removed the entry, who puts it back at once.
        check(rename(folder, aside) == 0 && rename(aside, folder) == 0, "cannot be moved")
        check(!waitUntil(before: .now + .milliseconds(500)) { access(entry, F_OK) != 0 }, "the entry is removed")
        do throws(PortError) {
            try directory.renew("kept")
            fail("renewed")
        } catch {
            guard case .directory(_, _, EMFILE) = error else { fail("\(error)") }
        }
        check(access(entry, F_OK) == 0, "the entry is given up")
    }
    try directory.renew("kept")
    guard try names.port(forName: "kept") == port.sendRight else { fail("the name is lost") }
    exit(0)
}
