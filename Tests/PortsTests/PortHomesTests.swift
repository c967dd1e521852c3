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
        #expect(!directory.endMove(of: port, at: port, to: homes[0]))
        #expect(try directory.home(of: port) == homes[0])

        try directory.beginMove(of: port, to: homes[1])
        #expect(directory.endMove(of: port, at: homes[0], to: homes[1]))
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
        #expect(!directory.endMove(of: port, at: port, to: homes[0]))
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

    @Test func `a port that comes with a name that nobody has any more gets it as another port does`() throws {
        let directory = try directory()
        let port = try MachPort(nameServer: sandbox.names)
        try directory.take("clock", with: port.receiver.exposure, isService: true)
        #expect(try sandbox.names.port(forName: "clock") == port.sendRight)
        // An entry that somebody removes is restored only for a name that is known.
        #expect(directory.own.withLock { $0.names.values.map(\.name) } == ["clock"])
        port.invalidate()
        #expect(directory.own.withLock { $0.names.isEmpty })
        #expect(try sandbox.names.names() == [])
    }
}
