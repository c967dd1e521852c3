import Foundation
import Glibc
import TestSupport
import Testing

@testable import Ports

/// A registry directory of its own for each test.
final class Sandbox: Sendable {
    private let folder = TemporaryFolder()
    var path: String { folder.path }
    let names: PortNameServer

    /// False when the environment keeps the tests to ZeroMQ.
    static let hasRings = getenv("PORTS_SHARED_MEMORY").map { String(cString: $0) } != "never"

    /// - Parameter sharedMemory: `never` for ports of a runtime of their own, to which all others send by ZeroMQ.
    init(sharedMemory: PortRuntime.SharedMemoryUse = .whenPossible) {
        OwnDirectory.prepare()
        names =
            switch sharedMemory {
            case .whenPossible: PortNameServer(directory: folder.path)
            case .never: PortRuntime(directory: folder.path, sharedMemory: .never).nameServer
            }
    }

    var files: [String] { registryFiles(in: path) }

    func file(_ name: String) -> String { path + "/" + name }

    /// The folder that a name's entry is in.
    func folder(_ name: String) throws -> String { file("names/" + (try NameEntry.fileName(for: name))) }

    /// Writes an entry by hand.
    ///
    /// - Returns: The file that it is in.
    @discardableResult
    func plant(
        _ text: String, as name: String, of port: PortID = PortID(incarnation: .random(), number: 1)
    ) throws -> String {
        let folder = try folder(name)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let file = "\(folder)/\(port.file)"
        try text.write(toFile: file, atomically: false, encoding: .utf8)
        return file
    }

    @discardableResult
    func plant(_ entry: NameEntry) throws -> String {
        try plant(String(decoding: entry.bytes, as: UTF8.self), as: entry.name, of: entry.right.id)
    }

    /// Removes a file or a folder, as somebody does who clears up.
    func remove(_ path: String) {
        // Entries that are restored meanwhile make a removal fail.
        #expect(waitUntil { (try? FileManager.default.removeItem(atPath: path)) != nil })
    }

    /// As if somebody had removed the directory and made it again.
    func remake(mode: mode_t = 0o700) throws {
        // Entries that are restored meanwhile make a removal fail.
        let isMade = waitUntil {
            try? FileManager.default.removeItem(atPath: path)
            return mkdir(path, mode) == 0
        }
        #expect(isMade)
    }

    /// Leaves a socket at which nobody listens any more.
    static func leaveSocket(at path: String, kind: LocalSocket.Kind) throws {
        let listener = try LocalSocket.listen(at: path, kind: kind)
        // A child of another test, which has not come to its program yet, may have the descriptor, too.
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    /// Writes a file of the registry by hand.
    func write(_ text: String, to name: String) throws {
        try text.write(toFile: file(name), atomically: false, encoding: .utf8)
    }
}
