import Foundation
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

private enum World {
    /// Root of a user namespace and a mount namespace of its own.
    static let wrapper = ["/usr/bin/unshare", "--map-root-user", "--mount"]

    /// Some systems have no such command, or do not let everybody use it.
    static let canBeMade: Bool = {
        guard access(wrapper[0], X_OK) == 0 else { return false }
        return Child("die", "0", in: Sandbox(), wrapper: wrapper).wait() == 0
    }()
}

/// Processes for which a path leads elsewhere than for others: after a change of root, or a mount.
@Suite(.ownThread, .enabled(if: World.canBeMade)) struct ChangedViewTests {
    let sandbox = Sandbox()
    /// A root that has a place for the registry directory.
    let jail = TemporaryFolder()

    init() throws {
        let parent = URL(fileURLWithPath: jail.path + sandbox.path).deletingLastPathComponent()
        try FileManager.default.createDirectory(at: parent, withIntermediateDirectories: true)
    }

    @Test func `a death is told to a process that does not see the directory`() throws {
        let desk = try Desk(sandbox)
        let owner = Child("own", in: sandbox)
        _ = try desk.report()
        let mourner = Child("mourn", jail.path, in: sandbox, wrapper: World.wrapper)
        try desk.report().send(MachPort.Message(), before: .patience)
        #expect(try desk.port.receive(before: .patience).id == 1)
        // Nobody collects the owner.
        owner.kill()
        #expect(mourner.wait() == 0)
    }

    @Test(arguments: ["chroot", "mount"])
    func `names stay where others find them when the path leads elsewhere for their owner alone`(_ how: String) throws {
        let desk = try Desk(sandbox)
        let owner = Child("view", how == "mount" ? how : jail.path, in: sandbox, wrapper: World.wrapper)
        let right = try desk.report()
        try right.send(MachPort.Message(), before: .patience)
        let isNewRegistered = try desk.port.receive(before: .patience).id == 1
        #expect(isNewRegistered == (how == "mount"))
        let runtime = PortRuntime(directory: sandbox.path)
        for name in ["before", "after"] {
            #expect(try runtime.nameServer.port(forName: name, before: .patience) == right)
        }
        for name in isNewRegistered ? ["before", "new"] : ["before"] {
            let found = try runtime.nameServer.port(forName: name, before: .patience)
            try found.send(MachPort.Message(), before: .patience)
            #expect(waitUntil { found.channel.isOpen && found.channel.waiterCount == 0 })
        }
        #expect(access(jail.path + sandbox.path, F_OK) != 0)
        withExtendedLifetime(owner) {}
    }
}
