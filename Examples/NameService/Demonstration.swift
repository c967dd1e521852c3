import Foundation

/// Runs servers and clients in a registry directory of their own, kills some, and prints what they say.
final class Demonstration {
    /// What servers and clients say comes through here. They do not inherit its descriptors.
    private let pipe = Pipe()
    private let directory: String
    private var processes: [String: pid_t] = [:]

    struct Failure: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    init() throws {
        var template = Array("/tmp/name-service-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure("no temporary directory: \(String(cString: strerror(errno)))")
        }
        directory = template.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" }
        setenv("PORTS_DIRECTORY", directory, 1)
    }

    /// None of them outlives the demonstration.
    deinit {
        for title in processes.keys { end(title, with: SIGKILL) }
        try? FileManager.default.removeItem(atPath: directory)
    }

    func run() throws {
        print("A server starts, and a client.")
        try start("server", "Server 1")
        try wait(for: "Server 1: I start.")
        try start("client", "Client 1")
        try wait(for: "Client 1: Server 1 answers.")

        print("The server is killed, and another starts.")
        end("Server 1", with: SIGKILL)
        try wait(for: "Client 1: I wait for the name.")
        try start("server", "Server 2")
        try wait(for: "Client 1: Server 2 answers.")

        print("The client is killed, and another starts.")
        end("Client 1", with: SIGKILL)
        try wait(for: "Server 2: Client 1 has gone.")
        try start("client", "Client 2")
        try wait(for: "Client 2: Server 2 answers.")

        print("The server is told to end.")
        end("Server 2", with: SIGTERM)
        try wait(for: "Client 2: I wait for the name.")
        print("The client would wait for ever. It is killed, and that is all.")
    }

    private func start(_ command: String, _ title: String) throws {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, pipe.fileHandleForWriting.fileDescriptor, STDOUT_FILENO)
        var arguments = [strdup("name-service"), strdup(command), strdup(title), nil]
        defer { for argument in arguments { free(argument) } }
        var pid: pid_t = 0
        let error = posix_spawn(&pid, "/proc/self/exe", &actions, nil, &arguments, environ)
        guard error == 0 else { throw Failure("\(title) cannot be started: \(String(cString: strerror(error)))") }
        processes[title] = pid
    }

    private func end(_ title: String, with signal: Int32) {
        guard let pid = processes.removeValue(forKey: title) else { return }
        kill(pid, signal)
        waitpid(pid, nil, 0)
    }

    /// Prints what servers and clients say, up to and with a line.
    private func wait(for line: String) throws {
        while true {
            let said = try nextLine()
            print("   \(said)")
            if said == line { return }
        }
    }

    private func nextLine() throws -> String {
        let output = pipe.fileHandleForReading.fileDescriptor
        var line: [UInt8] = []
        while true {
            var (byte, source): (UInt8, pollfd) = (0, pollfd(fd: output, events: Int16(POLLIN), revents: 0))
            guard poll(&source, 1, 10_000) == 1, read(output, &byte, 1) == 1 else {
                throw Failure("a server or a client has nothing to say")
            }
            if byte == UInt8(ascii: "\n") { return String(decoding: line, as: UTF8.self) }
            line.append(byte)
        }
    }
}
