import Foundation
import Glibc
import Testing

@testable import Ports

/// A registry directory of its own for each test, and one for the test process.
final class Sandbox: Sendable {
    /// Says where the process's own default directory is, before anybody asks.
    static func prepare() { _ = shared }

    private static let shared: Bool = {
        let path = madeDirectory()
        setenv("PORTS_DIRECTORY", path, 1)
        pathToRemove = strdup(path)
        // Registered before the library's own, so it runs after that.
        atexit { if let path = pathToRemove { try? FileManager.default.removeItem(atPath: String(cString: path)) } }
        return true
    }()
    nonisolated(unsafe) private static var pathToRemove: UnsafeMutablePointer<CChar>?

    let path: String
    let names: PortNameServer

    init() {
        Self.prepare()
        path = Self.madeDirectory()
        names = PortNameServer(directory: path)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// What is in the directory, and in its folder of names, but for that.
    var files: [String] {
        (files(in: path).filter { $0 != "names" } + files(in: file("names")).map { "names/" + $0 }).sorted()
    }

    private func files(in path: String) -> [String] {
        (try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []
    }

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

    /// As if somebody had removed the directory and made it again.
    func remake() throws {
        try FileManager.default.removeItem(atPath: path)
        #expect(mkdir(path, 0o700) == 0)
    }

    /// Writes a file of the registry by hand.
    func write(_ text: String, to name: String) throws {
        try text.write(toFile: file(name), atomically: false, encoding: .utf8)
    }

    private static func madeDirectory() -> String {
        var template = Array("/tmp/pt-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { preconditionFailure("no temporary directory") }
        return template.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
    }
}
