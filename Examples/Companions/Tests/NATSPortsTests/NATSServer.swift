import Foundation
import Synchronization

/// A server of NATS on this machine, until the release.
final class NATSServer: Sendable {
    /// The port that all incarnations of the server have.
    let port: Int
    private let folder: String
    private let configuration: Mutex<String>
    private let process = Mutex<Process?>(nil)

    /// - Parameter configuration: More lines of the configuration file. `FOLDER` stands for the server's folder.
    init(_ configuration: String = "", prepare: (String) throws -> Void = { _ in }) throws {
        folder = NSTemporaryDirectory() + "nats-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try prepare(folder)
        port = freePort()
        self.configuration = Mutex(configuration.replacingOccurrences(of: "FOLDER", with: folder))
        try start()
    }

    deinit {
        kill()
        try? FileManager.default.removeItem(atPath: folder)
    }

    var url: String { "nats://127.0.0.1:\(port)" }
    func path(of file: String) -> String { "\(folder)/\(file)" }

    private func writeConfiguration() throws {
        try "listen: \"127.0.0.1:\(port)\"\n\(configuration.withLock { $0 })\n".write(
            toFile: "\(folder)/nats.conf", atomically: true, encoding: .utf8)
    }

    /// Lets the running server read other lines of its configuration file.
    func reload(_ configuration: String) throws {
        self.configuration.withLock { $0 = configuration.replacingOccurrences(of: "FOLDER", with: folder) }
        try writeConfiguration()
        send(SIGHUP)
    }

    func start() throws {
        try writeConfiguration()
        let process = Process()
        process.executableURL = try program("nats-server")
        process.arguments = ["-c", "\(folder)/nats.conf", "-l", "\(folder)/log"]
        try process.run()
        self.process.withLock { $0 = process }
        let deadline = Date(timeIntervalSinceNow: 60)
        while !canConnect(port) {
            guard Date() < deadline, process.isRunning else {
                throw NATSServerFailure(text: (try? String(contentsOfFile: "\(folder)/log", encoding: .utf8)) ?? "")
            }
            usleep(2000)
        }
    }

    /// Kills the server at once.
    func kill() {
        guard let process = process.withLock({ $0.take() }) else { return }
        Glibc.kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// Stops or continues the server, as a network that swallows everything would.
    func send(_ signal: Int32) {
        if let process = process.withLock({ $0 }) { Glibc.kill(process.processIdentifier, signal) }
    }
}

struct NATSServerFailure: Error, CustomStringConvertible {
    let text: String
    var description: String { "nats-server did not start: \(text)" }
}

/// Where a program is.
func program(_ name: String) throws -> URL {
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":") + ["/usr/bin", "/usr/sbin"]
    for folder in folders where FileManager.default.isExecutableFile(atPath: "\(folder)/\(name)") {
        return URL(fileURLWithPath: "\(folder)/\(name)")
    }
    throw NATSServerFailure(text: "\(name) is not installed")
}

private func withSocket<Result>(_ port: Int, _ body: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr)
    return withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
}

private func canConnect(_ port: Int) -> Bool { withSocket(port) { connect($0, $1, $2) == 0 } }

/// Below the ports that the kernel gives to connections, one of which could take a port before its server does.
private let ports = 20_000..<32_000
private let lastPort = Mutex(ports.lowerBound + Int(getpid()) % ports.count)

/// A port that nobody listens to at the moment, and that no other server of this process gets.
private func freePort() -> Int {
    while true {
        let port = lastPort.withLock { last in
            last = last + 1 < ports.upperBound ? last + 1 : ports.lowerBound
            return last
        }
        if withSocket(port, { bind($0, $1, $2) == 0 }) { return port }
    }
}

/// A process of `far-peer`.
final class Peer: Sendable {
    private let process: Mutex<Process>
    private let input: Mutex<Pipe>
    private let output: Mutex<FileHandle>

    init(_ arguments: [String], in namespace: String? = nil) throws {
        let process = Process()
        let own = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
        let peer = own.appendingPathComponent("far-peer")
        if let namespace {
            process.executableURL = try program("ip")
            process.arguments = ["netns", "exec", namespace, peer.path] + arguments
        } else {
            process.executableURL = peer
            process.arguments = arguments
        }
        let (input, output) = (Pipe(), Pipe())
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        self.process = Mutex(process)
        self.input = Mutex(input)
        self.output = Mutex(output.fileHandleForReading)
        // The first line says that the process is ready.
        guard line() == "ready" else { throw NATSServerFailure(text: "far-peer has ended") }
    }

    /// The next line of the output; nil after the last. Blocks.
    func line() -> String? {
        output.withLock { output in
            var line: [UInt8] = []
            while let byte = try? output.read(upToCount: 1)?.first {
                if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
                line.append(byte)
            }
            return nil
        }
    }

    /// Stops or continues the process.
    func send(_ signal: Int32) { process.withLock { _ = Glibc.kill($0.processIdentifier, signal) } }

    deinit { kill() }

    func kill() {
        process.withLock { process in
            guard process.isRunning else { return }
            Glibc.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
        }
    }

    /// Asks the process to end, and waits for that.
    func finish() {
        input.withLock { try? $0.fileHandleForWriting.close() }
        process.withLock { $0.waitUntilExit() }
    }
}

/// Polls a condition that no event announces.
func waitUntil(_ condition: () async -> Bool) async -> Bool {
    let deadline = ContinuousClock.now + .seconds(60)
    while await !condition() {
        if deadline < .now { return false }
        try? await Task.sleep(for: .milliseconds(2))
    }
    return true
}

/// A value that several tasks change.
final class Shared<Value: Sendable>: Sendable {
    private let value: Mutex<Value>

    init(_ value: Value) { self.value = Mutex(value) }

    func withLock<Result: Sendable>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        try value.withLock { (value: inout sending Value) in try body(&value) }
    }
}

/// - Returns: The output.
@discardableResult
func openssl(_ arguments: [String]) throws -> Data {
    let process = Process()
    process.executableURL = try program("openssl")
    process.arguments = arguments
    process.standardError = FileHandle.nullDevice
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    if process.terminationStatus != 0 { throw NATSServerFailure(text: "openssl \(arguments) has failed") }
    return data
}

/// Makes an authority, and a certificate of it for a host.
func makeCertificates(_ folder: String, host: String) throws {
    func run(_ arguments: String) throws {
        try openssl(arguments.split(separator: " ").map { $0.replacingOccurrences(of: "FOLDER", with: folder) })
    }
    let key = "-newkey rsa:2048 -nodes"
    try run("req -x509 \(key) -keyout FOLDER/ca.key -out FOLDER/ca.pem -subj /CN=Authority -days 2")
    try run("req \(key) -keyout FOLDER/key.pem -out FOLDER/request -subj /CN=\(host)")
    let name = host.first?.isNumber == true ? "IP:\(host)" : "DNS:\(host)"
    try "subjectAltName=\(name)\n".write(toFile: folder + "/names", atomically: true, encoding: .utf8)
    try run(
        "x509 -req -in FOLDER/request -CA FOLDER/ca.pem -CAkey FOLDER/ca.key -CAcreateserial -out FOLDER/cert.pem "
            + "-extfile FOLDER/names -days 2")
}
