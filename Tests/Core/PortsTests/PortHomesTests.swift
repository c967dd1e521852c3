import Glibc
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// The registry's files about the homes of ports that move.
struct PortHomesTests {
    let sandbox = Sandbox()
    private let port = PortID(incarnation: .random(), number: 1)
    private let homes = (2...4).map { PortID(incarnation: .random(), number: $0) }

    private func directory() throws -> RegistryDirectory { try sandbox.names.registryDirectory() }

    @Test func `the next owner takes a port, or the owner keeps it`() throws {
        let directory = try directory()
        #expect(try directory.home(of: port) == nil)
        try directory.beginMove(of: port, to: homes[0])
        #expect(try directory.home(of: port) == nil)
        #expect(directory.commitMove(of: port, to: homes[0]))
        #expect(directory.endMove(of: port, at: port, to: homes[0]) == .taken)
        #expect(try directory.home(of: port) == homes[0])

        try directory.beginMove(of: port, to: homes[1])
        #expect(directory.endMove(of: port, at: homes[0], to: homes[1]) == .kept)
        #expect(!directory.commitMove(of: port, to: homes[1]))
        #expect(try directory.home(of: port) == homes[0])
    }

    @Test func `an owner that learns late that its port was taken does not keep it when the port has moved on`() throws
    {
        let directory = try directory()
        try directory.beginMove(of: port, to: homes[0])
        #expect(directory.commitMove(of: port, to: homes[0]))
        try directory.beginMove(of: port, to: homes[1])
        #expect(directory.commitMove(of: port, to: homes[1]))
        #expect(directory.endMove(of: port, at: port, to: homes[0]) == .taken)
    }

    @Test func `who has a port is unknown when its directory was lost in the midst of a move`() throws {
        for isTaken in [false, true] {
            let directory = try directory()
            try directory.beginMove(of: port, to: homes[0])
            if isTaken { #expect(directory.commitMove(of: port, to: homes[0])) }
            sandbox.remove(sandbox.path)
            #expect(directory.endMove(of: port, at: port, to: homes[0]) == .unknown)
        }
    }

    @Test func `the death of an owner ends the moves from it that nobody has decided`() throws {
        let directory = try directory()
        try directory.beginMove(of: port, to: homes[0])
        #expect(try directory.nextHome(of: port, after: port, ownerDied: true) == nil)
        #expect(!directory.commitMove(of: port, to: homes[0]))

        try directory.beginMove(of: port, to: homes[0])
        #expect(directory.commitMove(of: port, to: homes[0]))
        try directory.beginMove(of: port, to: homes[1])
        // The port is not at its first owner any more, so this is not the owner that moves it.
        #expect(try directory.nextHome(of: port, after: port, ownerDied: true) == .moved(to: homes[0]))
        #expect(directory.commitMove(of: port, to: homes[1]))
        #expect(try directory.nextHome(of: port, after: homes[0], ownerDied: true) == .moved(to: homes[1]))
        #expect(try directory.nextHome(of: port, after: homes[1], ownerDied: true) == nil)
    }

    @Test func `a sweep leaves the name of a dead borrower's port to the lender that waits for it`() throws {
        let directory = try directory()
        let lender = PortID(incarnation: sandbox.names.runtime.incarnation, number: 7)
        try directory.beginLoan(of: port, by: lender)
        try directory.beginMove(of: port, to: homes[0])
        #expect(directory.commitMove(of: port, to: homes[0]))
        let right = WireRight(id: homes[0], queueLimit: 1, limit: 1, path: sandbox.path)
        try sandbox.plant(NameEntry(name: "lent", right: right, of: port))
        mkdir(sandbox.file("\(homes[0].incarnation)"), 0o700)
        try sandbox.write("", to: "\(homes[0].incarnation)/\(homes[0].number).lent")
        #expect(try sandbox.names.sweep().names == [])
        // Nor does another port get it.
        let other = try MachPort(nameServer: sandbox.names)
        #expect(errorKind { try sandbox.names.register(other, name: "lent") } == "nameInUse")
        directory.endLoan(of: port, by: lender)
        #expect(try sandbox.names.sweep().names == ["lent"])
    }

    /// The owner before the present one was killed before it removed its entry.
    @Test func `a name leads to the living port beside the entry that a dead owner has left`() throws {
        let living = try MachPort(nameServer: sandbox.names)
        // The order in a folder is the file system's.
        let names = (1...10).map { "moved \($0)" }
        for (number, name) in names.enumerated() {
            try sandbox.names.register(living, name: name)
            let home = PortID(incarnation: .random(), number: UInt64(number))
            let right = WireRight(id: home, queueLimit: 1, limit: 1, path: sandbox.path)
            try sandbox.plant(NameEntry(name: name, right: right, of: living.id))
        }
        let looker = PortRuntime(directory: sandbox.path).nameServer
        for name in names { #expect(try looker.registration(forName: name)?.port.id == living.id) }
        #expect(try looker.registrations().map(\.name).sorted() == names.sorted())
        #expect(try looker.names().sorted() == names.sorted())
        #expect(try looker.sweep().names == [])
        for name in names { #expect(try Folder.files(in: sandbox.folder(name))?.count == 1) }
    }

    @Test func `what dead processes leave is swept, and other files stay`() throws {
        let directory = try directory()
        try directory.beginMove(of: port, to: homes[0])
        #expect(directory.commitMove(of: port, to: homes[0]))
        try directory.beginMove(of: homes[1], to: homes[2])
        try sandbox.write("nothing of ours", to: "homes/notes")
        try sandbox.write("nothing of ours", to: "moves/notes")
        directory.sweepHomes()
        #expect(directory.folder.files(in: "homes") == ["notes"])
        #expect(directory.folder.files(in: "moves") == ["notes"])
        #expect(PortID(file: "x.1") == nil)
        #expect(PortID(file: "\(port.incarnation).") == nil)
        #expect(PortID(file: port.file) == port)
    }

    @Test func `a file that names a port and no home is neither a move nor a loan`() throws {
        let directory = try directory()
        try directory.beginMove(of: port, to: homes[0])
        #expect(directory.commitMove(of: port, to: homes[0]))
        try directory.beginLoan(of: homes[1], by: homes[2])
        directory.endLoan(of: homes[1], by: homes[2])
        for folder in ["moves", "loans"] { try sandbox.write("", to: "\(folder)/\(port.file)~nothing of ours") }
        #expect(try !directory.livesElsewhere(port, than: homes[0]))
        directory.sweepHomes()
        #expect(directory.folder.files(in: "homes") == [])
        #expect(directory.folder.files(in: "moves") == ["\(port.file)~nothing of ours"])
    }

    @Test func `a name that a dead borrower has left, and its lender gives up, is free`() throws {
        let directory = try directory()
        let port = try MachPort(nameServer: sandbox.names)
        let right = WireRight(id: homes[0], queueLimit: 1, limit: 1, path: sandbox.path)
        try directory.beginLoan(of: port.id, by: port.receiver.id)
        try sandbox.plant(NameEntry(name: "extra", right: right, of: port.id))
        let other = try MachPort(nameServer: sandbox.names)
        #expect(errorKind { try sandbox.names.register(other, name: "extra") } == "nameInUse")
        try sandbox.names.remove(port, name: "extra")
        try sandbox.names.register(other, name: "extra")
        try sandbox.names.remove(other, name: "extra")
        // The port itself gets it also without that.
        try sandbox.plant(NameEntry(name: "extra", right: right, of: port.id))
        try sandbox.names.register(port, name: "extra")
        #expect(try sandbox.names.port(forName: "extra") == port.sendRight)
    }

    @Test func `the socket of a port that is being handed over is out of sight, and then the same again`() throws {
        let port = try MachPort(nameServer: sandbox.names)
        let directory = try port.receiver.exposure.directoryOfSocket()
        let socket = sandbox.file("\(port.receiver.id.incarnation)/\(port.receiver.id.number)")
        func inode() -> ino_t? {
            var status = stat()
            return stat(socket, &status) == 0 ? status.st_ino : nil
        }
        let former = try #require(inode())
        for _ in 0..<2 {
            port.receiver.exposure.hide()
            #expect(inode() == nil)
            port.receiver.exposure.show()
            #expect(inode() == former)
        }
        // Others see that the port lives.
        try sandbox.names.register(port, name: "mine")
        port.receiver.exposure.hide()
        let others = PortRuntime(directory: sandbox.path).nameServer
        let other = try MachPort(nameServer: others)
        #expect(errorKind { try others.register(other, name: "mine") } == "nameInUse")
        port.invalidate()
        #expect(waitUntil { directory.own.withLock { $0.sockets } == ["c"] })
        #expect(!sandbox.files.contains { $0.contains("~") })
    }

    @Test func `a port that comes with a name that nobody has any more gets it as another port does`() throws {
        let directory = try directory()
        let port = try MachPort(nameServer: sandbox.names)
        #expect(try directory.take("clock", with: port.receiver.exposure, isService: true))
        #expect(try sandbox.names.port(forName: "clock") == port.sendRight)
        // An entry that somebody removes is restored only for a name that is known.
        #expect(directory.own.withLock { $0.names.values.map(\.name) } == ["clock"])
        port.invalidate()
        #expect(directory.own.withLock { $0.names.isEmpty })
        #expect(try sandbox.names.names() == [])
    }

    @Test func `a dead owner's name is free only when nobody can take its port any more`() throws {
        let directory = try directory()
        let right = WireRight(id: port, queueLimit: 1, limit: 1, path: sandbox.path)
        let (other, heir) = (try MachPort(nameServer: sandbox.names), try MachPort(nameServer: sandbox.names))
        _ = try heir.receiver.exposure.directoryOfSocket()
        let next = heir.receiver.id
        try directory.beginMove(of: port, to: next)
        try sandbox.plant(NameEntry(name: "undecided", right: right))
        try sandbox.names.register(other, name: "undecided")
        #expect(!directory.commitMove(of: port, to: next))

        try directory.beginMove(of: port, to: next)
        #expect(directory.commitMove(of: port, to: next))
        try sandbox.plant(NameEntry(name: "decided", right: right))
        #expect(errorKind { try sandbox.names.register(other, name: "decided") } == "nameInUse")
        heir.invalidate()
        try sandbox.names.register(other, name: "decided")
    }

    @Test func `an owner that exits lets nobody take its port before it gives the name up`() throws {
        let directory = try directory()
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: "leaving")
        let entry = try #require(directory.own.withLock { $0.names["leaving"] })
        try directory.beginMove(of: port.id, to: homes[0])
        #expect(!directory.outlivesThisProcess(entry))
        #expect(!directory.commitMove(of: port.id, to: homes[0]))
    }

    @Test func `a name in another directory than the port's own is kept, too`() throws {
        let (directory, others) = (try directory(), Sandbox())
        try directory.open()
        let lender = PortID(incarnation: sandbox.names.runtime.incarnation, number: 7)
        try directory.beginLoan(of: port, by: lender)
        let right = WireRight(id: homes[0], queueLimit: 1, limit: 1, path: sandbox.path)
        try others.plant(NameEntry(name: "far", right: right, of: port))
        let other = try MachPort(nameServer: others.names)
        #expect(errorKind { try others.names.register(other, name: "far") } == "nameInUse")
        #expect(try others.names.sweep().names == [])
        directory.endLoan(of: port, by: lender)
        try others.names.register(other, name: "far")
    }

    @Test func `a port that has ended at its next home keeps no name at the former ones`() throws {
        _ = try directory()
        let other = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(other, name: "other")
        // The process of the first home lives.
        let port = PortID(incarnation: other.id.incarnation, number: 77)
        let right = WireRight(id: homes[0], queueLimit: 1, limit: 1, path: sandbox.path)
        try sandbox.plant(NameEntry(name: "ended", right: right, of: port))
        try sandbox.names.register(other, name: "ended")
    }

    @Test func `a former owner does not take the name from the next one`() throws {
        let directory = try directory()
        let port = try MachPort(nameServer: sandbox.names)
        let next = PortID(incarnation: port.id.incarnation, number: 77)
        let right = WireRight(id: next, queueLimit: 1, limit: 1, path: sandbox.path)
        try directory.beginMove(of: port.id, to: next)
        #expect(directory.commitMove(of: port.id, to: next))
        let entry = try sandbox.plant(NameEntry(name: "gone", right: right, of: port.id))
        #expect(errorKind { try sandbox.names.register(port, name: "gone") } == "unavailable")
        #expect(access(entry, F_OK) == 0)
    }

    @Test func `a name is never free while its entry is renewed`() throws {
        let directory = try directory()
        let port = try MachPort(nameServer: sandbox.names)
        try sandbox.names.register(port, name: "renewed")
        let entry = try sandbox.folder("renewed") + "/\(port.id.file)"
        let isOver = Shared(false)
        let missing = Shared(0)
        let looks = try RunLoopThread { _ in
            while !isOver.withLock({ $0 }) { if access(entry, F_OK) != 0 { missing.withLock { $0 += 1 } } }
        }
        for _ in 0..<300 { #expect(try directory.renew("renewed")) }
        isOver.withLock { $0 = true }
        looks.stop()
        looks.join()
        #expect(missing.withLock { $0 } == 0)
    }

    @Test func `a folder that cannot be read is an error, and not a port that nobody has lent`() throws {
        let directory = try directory()
        try sandbox.write("", to: "loans")
        #expect(errorKind { _ = try directory.lender(of: port) } == "directory")
        #expect(errorKind { _ = try directory.nextHome(of: port, after: port, ownerDied: true) } == "directory")
    }
}
