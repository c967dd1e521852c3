import CRunLoopShims
import Foundation
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Descriptors, sockets or memory run out.
@Suite(.ownThread) struct LimitTests {
    let sandbox = Sandbox()

    /// How many descriptors this process may have.
    private static let limit = Int(clamping: Descriptor.limit)

    private func flood(_ path: String, _ kind: LocalSocket.Kind, _ count: Int) throws -> [Int32] {
        try (0..<count).map { _ in
            let descriptor = try LocalSocket.make(kind)
            #expect(waitUntil { LocalSocket.connect(descriptor, to: path) == 0 })
            return descriptor
        }
    }

    /// Sends one message from a process that was not connected before.
    private func greet(_ target: Target) throws -> Bool {
        let before = try target.seen().handled
        let child = Child("greet", in: sandbox)
        return try child.wait() == 0 && waitUntil { try target.seen().handled == before + 1 }
    }

    @Test func `a port that takes only messages without components can be reached from other processes`() throws {
        let port = try MachPort(messageLimit: 16, nameServer: sandbox.names)
        try sandbox.names.register(port, name: "test")
        let child = Child("send", "3", in: sandbox)
        for number in 0..<3 as Range<UInt32> { #expect(try port.receive(before: .patience).id == number) }
        #expect(child.wait() == 0)
    }

    @Test(.enabled(if: limit >= 1000), arguments: [LocalSocket.Kind.stream, .sequencedPackets])
    func `a flood of connections leaves a process its reserve, and its good peers`(_ kind: LocalSocket.Kind) throws {
        let target = try Target(sandbox, setUp: "ulimit -n 160")
        let path = kind == .stream ? target.path : target.controlPath
        #expect(try greet(target))
        let before = try target.seen()
        for round in 0..<(Scale.isLong ? 50 : 2) {
            var connections = try flood(path, kind, 400)
            // There may be more room, because it has given up what it had of an earlier peer.
            #expect(
                try waitUntil {
                    if try target.newPort().contains("the limit is 160") { return true }
                    connections += try flood(path, kind, 10)
                    return false
                })
            #expect(try target.seen().descriptors <= 160 - 60)
            #expect(waitUntil { target.hasLogged("(pid \(getpid()))", "no descriptor is left") })
            for connection in connections { close(connection) }
            #expect(try waitUntil { try target.seen().descriptors <= before.descriptors }, "round \(round)")
            #expect(try target.newPort() == "made")
            #expect(try greet(target))
        }
    }

    @Test(.enabled(if: limit >= 1000), arguments: [LocalSocket.Kind.stream, .sequencedPackets])
    func `connections that come in when no descriptor is left do no harm`(_ kind: LocalSocket.Kind) throws {
        let target = try Target(sandbox, setUp: "ulimit -n 160")
        let path = kind == .stream ? target.path : target.controlPath
        #expect(try target.seen().descriptors < 160)
        try target.hoard(true)
        #expect(try target.newPort().contains("160"))
        for _ in 0..<(Scale.isLong ? 100 : 3) {
            for connection in try flood(path, kind, 100) { close(connection) }
            #expect(try target.seen().malformed == 0)
        }
        try target.hoard(false)
        #expect(try waitUntil { try target.newPort() == "made" })
        #expect(try waitUntil { try greet(target) })
    }

    @Test(arguments: [LocalSocket.Kind.stream, .sequencedPackets])
    func `whoever calls a process that has set its limit lower than its descriptors is refused`(
        _ kind: LocalSocket.Kind
    ) throws {
        let target = try Target(sandbox, setUp: "set -- \"$@\" 100")
        try target.lowerLimit()
        #expect(try target.seen().malformed == 0)
        let caller = try LocalSocket.make(kind)
        defer { close(caller) }
        #expect(LocalSocket.connect(caller, to: kind == .stream ? target.path : target.controlPath) == 0)
        #expect(crl_poll(caller, -1, MonotonicInstant.patience.timeout) > 0)
        var byte: UInt8 = 0
        #expect(recv(caller, &byte, 1, 0) <= 0)
        #expect(waitUntil { target.hasLogged("(pid \(getpid()))", "no descriptor is left") })
        #expect(try target.seen().malformed == 0)
    }

    @Test func `whoever watches names that cannot be read any more is told so`() {
        #expect(Child("unreadable-names", in: sandbox).wait() == 0)
    }

    /// Links the helper program again, as a library.
    private func linkLibrary() throws -> String {
        let linker = Process()
        linker.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        let objects = "@\(Child.folder)/PortsTestHelper.product/Objects.LinkFileList"
        linker.arguments = ["swiftc", "-emit-library", "-o", sandbox.file("library.so"), objects, "-lzmq"]
        try linker.run()
        linker.waitUntilExit()
        try #require(linker.terminationStatus == 0)
        return sandbox.file("library.so")
    }

    @Test(.enabled(if: sanitizerOptions.isEmpty && Sandbox.hasRings))
    func `a program that loads the library while it runs is told that libzmq has no guard there`() throws {
        let target = try Target(
            sandbox, setUp: "export LIBRARY=\(try linkLibrary())", program: Child.folder + "/LoadingHelper")
        #expect(!target.hasLogged("may end it"))
        for connection in try flood(target.path, .stream, 1) { close(connection) }
        #expect(waitUntil { target.hasLogged("a connection by ZeroMQ may end it") })
        #expect(try target.newPort() == "made")
    }

    @Test(.enabled(if: limit >= 4000)) func `a port has so many connections, and no more`() throws {
        let target = try Target(sandbox)
        // Its first answer opens a ring.
        _ = try target.seen()
        let before = try target.seen()
        let connections = try flood(
            target.path, .stream, ControlConnectionTable.most + ControlConnectionTable.mostCallers + 200)
        #expect(waitUntil { target.hasLogged("(pid \(getpid()))", "there are too many connections") })
        // A connection beyond the limit is accepted for a moment.
        let most = before.descriptors + ControlConnectionTable.most + ControlConnectionTable.mostCallers
        #expect(try waitUntil { try target.seen().descriptors <= most })
        for connection in connections { close(connection) }
        #expect(try waitUntil { try target.seen().descriptors <= before.descriptors })
        #expect(try greet(target))
    }

    @Test(.enabled(if: !isThreadSanitized))
    func `a process that has all of libzmq's sockets is told their number, and goes on`() {
        #expect(Child("sockets", in: sandbox).wait() == 0)
    }

    @Test func `what is open goes on working when no descriptor is left`() {
        #expect(Child("no-descriptors", in: sandbox).wait() == 0)
    }

    @Test func `a process that may open no more files waits as long as it should`() {
        #expect(Child("few-descriptors", in: sandbox).wait() == 0)
    }

    @Test func `a request whose asker has no descriptor to wait with is not sent`() {
        #expect(Child("ask-few-descriptors", in: sandbox).wait() == 0)
    }

    @Test func `whoever asks in one directory after another keeps nothing of those that are gone`() {
        #expect(Child("many-directories", in: sandbox).wait() == 0)
    }

    @Test(arguments: ["own", "watch"])
    func `no name is lost, or reported so, when no descriptor is left to read its entry with`(_ names: String) throws {
        let desk = try Desk(sandbox)
        let child = Child(
            "no-descriptors-\(names)", in: sandbox, wrapper: ["/bin/sh", "-c", "ulimit -n 200; exec \"$@\"", "sh"])
        #expect(child.wait() == 0)
        withExtendedLifetime(desk) {}
    }

    @Test func `without a thread to be had a port is refused, and what there is goes on`() {
        #expect(Child("no-threads", in: sandbox).wait() == 0)
    }

    @Test func `a name that cannot be written is refused with the cause, and what there is goes on`() {
        #expect(Child("full-disk", "limit", in: sandbox).wait() == 0)
    }

    /// A file system of its own, which only root may make, and not everywhere.
    private static let canMount: Bool = {
        let sandbox = Sandbox()
        guard geteuid() == 0, mount("tmpfs", sandbox.path, "tmpfs", 0, "size=64k,mode=0700") == 0 else { return false }
        return umount(sandbox.path) == 0
    }()

    @Test(.enabled(if: canMount, "only root can make a small file system"))
    func `a registry on a full disk says so, and goes on`() {
        #expect(mount("tmpfs", sandbox.path, "tmpfs", 0, "size=64k,mode=0700") == 0)
        #expect(Child("full-disk", "disk", in: sandbox).wait() == 0)
        #expect(waitUntil { umount(sandbox.path) == 0 })
    }

    @Test(.enabled(if: canMount, "only root can make a small file system"))
    func `names that are removed while the disk is full are there again when it is not`() throws {
        #expect(mount("tmpfs", sandbox.path, "tmpfs", 0, "size=1m,nr_inodes=40,mode=0700") == 0)
        defer { #expect(waitUntil { umount(sandbox.path) == 0 }) }
        let owner = Run([Child.program, "hold", "kept"], environment: ["PORTS_DIRECTORY": sandbox.path])
        #expect(waitUntil { access(sandbox.file("names/kept"), F_OK) == 0 })
        // The owner restores entries only once it watches them.
        #expect(rename(sandbox.file("names/kept"), sandbox.file("former")) == 0)
        #expect(waitUntil { access(sandbox.file("names/kept"), F_OK) == 0 })
        #expect(Child(["/bin/rm", "-r", sandbox.file("former")]).wait() == 0)
        var fillers: [String] = []
        func fill() {
            while case let file = open(sandbox.file("\(fillers.count)"), O_CREAT | O_CLOEXEC, 0o600), file >= 0 {
                fillers.append(sandbox.file("\(fillers.count)"))
                close(file)
            }
        }
        fill()
        #expect(rename(sandbox.file("names"), sandbox.file("former")) == 0)
        #expect(Child(["/bin/rm", "-r", sandbox.file("former")]).wait() == 0)
        fill()
        var errors: String { String(decoding: owner.errors, as: UTF8.self) }
        let words = ["nobody can find", "somebody has removed the names"]
        #expect(waitUntil { words.contains(where: errors.contains) })
        for filler in fillers { unlink(filler) }
        #expect(waitUntil { access(sandbox.file("names/kept"), F_OK) == 0 }, "\(errors)")
        owner.child.kill()
        owner.child.wait()
    }

    @Test(.enabled(if: limit >= 1000)) func `ports that come and go hold no descriptors`() {
        let child = Child("come-and-go", "\(Scale.count(9_000, long: 1_000_000))", in: sandbox)
        #expect(child.wait(before: .now + .seconds(Scale.isLong ? 1200 : 120)) == 0)
    }

    @Test(.enabled(if: limit >= 4000))
    func `a process that is stopped most of the time gets every message, by two sockets a port at most`() throws {
        let desk = try Desk(sandbox)
        let sender = Child("send-to-many", in: sandbox)
        let senderDesk = try desk.report()
        let owner = Child("own-slow-ports", "\(Scale.count(200, long: 1000))", in: sandbox)
        let rights = try desk.port.receive(before: .patience).components
        try senderDesk.send(MachPort.Message(rights), before: .patience)
        #expect(try desk.port.receive(before: .patience).id == 1)
        // Stopped for longer than a connection may take at first, and running for less.
        repeat {
            owner.stop()
            if sender.wait(before: .now + .milliseconds(300)) != nil { break }
            owner.signal(SIGCONT)
        } while sender.wait(before: .now + .milliseconds(20)) == nil
        #expect(sender.wait(before: .distantPast) == 0)
    }

    @Test(.enabled(if: limit >= 1500)) func `many ports cost what they should, and give it back`() throws {
        let (ports, connected) = Scale.isLong && Self.limit >= 12_000 ? ("10000", "1000") : ("500", "100")
        let desk = try Desk(sandbox)
        let child = Child("many", ports, connected, in: sandbox)
        try desk.report().send(MachPort.Message(), before: .patience)
        for case .port(let right) in try desk.port.receive(before: .patience).components {
            try right.send(MachPort.Message(id: 9), before: .patience)
        }
        #expect(child.wait(before: .now + .seconds(120)) == 0)
    }
}
