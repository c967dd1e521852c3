import Glibc

/// A child: this program again, told by a hidden argument what to be. It ends when we do, however that comes about,
/// because its standard input does.
final class Child: Sendable {
    static let argument = "--child"

    let pid: pid_t
    private let input: Int32

    /// Where a child finds the descriptor that it was handed.
    static let handed: Int32 = 3

    /// - Parameter descriptor: A descriptor that the child gets besides its role.
    init(_ role: String, handing descriptor: Int32? = nil) throws {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw BenchError.system("pipe", errno: errno) }
        input = ends[1]
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO)
        if let descriptor { posix_spawn_file_actions_adddup2(&actions, descriptor, Self.handed) }
        var arguments: [UnsafeMutablePointer<CChar>?] = []
        for argument in ["bench", Self.argument, role] { arguments.append(strdup(argument)) }
        arguments.append(nil)
        defer { for argument in arguments { free(argument) } }
        var pid: pid_t = 0
        let error = posix_spawn(&pid, "/proc/self/exe", &actions, nil, &arguments, environ)
        close(ends[0])
        guard error == 0 else { throw BenchError.system("posix_spawn", errno: error) }
        self.pid = pid
    }

    deinit {
        close(input)
        waitForEnd()
    }

    /// By itself, or because its input has ended.
    func waitForEnd() {
        var status: Int32 = 0
        waitpid(pid, &status, 0)
    }

    /// The child's side.
    static func serve(_ role: String) throws {
        let words = role.split(separator: " ", maxSplits: 2).map(String.init)
        if words[0] == Leaks.role { return try Leaks.serve(words) }
        if words[0] == CrowdMemory.role { return try CrowdMemory.serve(words) }
        if words[0] == PoolPeer.role { PoolPeer.serve() }
        try endWithParent()
        #if NATS_PEER
            if words[0] == NATSPeer.role, words.count == 2 { try NATSPeer.serve(words[1]) }
        #endif
        #if GRPC && NATS_PEER
            if words[0] == GRPCTypedPeer.role, words.count == 2 { try GRPCTypedPeer.serve(words[1]) }
        #endif
        switch (words[0], words.count) {
        case (PortPeer<OurThread>.role, 2):
            try PortPeer<OurThread>.serve(pollingTime: .microseconds(Int(words[1]) ?? 0))
        case (TypedPeer.role, 2): try TypedPeer.serve(words[1])
        case (XPCPeer.role, 2): try XPCPeer.serve(words[1])
        case (MemoryPeer.role, 2): try MemoryPeer.serve()
        case (RawPeer.role, 3): try RawPeer.serve(words[2], RawFrame(overhead: Int(words[1]) ?? 0))
        case (PacketPeer.role, 3): try PacketPeer.serve(words[2], RawFrame(overhead: Int(words[1]) ?? 0))
        case (NIOPeer.role, 2): try NIOPeer.serve(words[1])
        default:
            guard let peer = ExtraPeers.built.first(where: { $0.role == words[0] }), words.count == 2 else {
                throw BenchError.role(role)
            }
            try peer.serve(words[1])
        }
    }

    /// The output of a child that ends by itself.
    static func output(_ role: String) throws -> String {
        // The shell is another program: the link has to be followed here.
        guard let path = realpath("/proc/self/exe", nil) else { throw BenchError.system("realpath", errno: errno) }
        defer { free(path) }
        guard let line = firstLine(of: "'\(String(cString: path))' \(argument) '\(role)'") else {
            throw BenchError.noChild
        }
        return line
    }

    /// Ends the calling process with its parent.
    static func endWithParent() throws {
        try PlainThread.start {
            var byte: UInt8 = 0
            while read(STDIN_FILENO, &byte, 1) > 0 {}
            _exit(0)
        }
    }
}

/// The first line that a command prints; nil if there is none.
func firstLine(of command: String) -> String? {
    guard let output = popen(command, "r") else { return nil }
    defer { pclose(output) }
    var line = [CChar](repeating: 0, count: 256)
    guard fgets(&line, Int32(line.count), output) != nil else { return nil }
    return String(decoding: line.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

/// A directory for sockets, which is removed when the object is released.
final class TemporaryDirectory {
    let path: String

    init() throws {
        var template = Array("/tmp/ports-bench-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw BenchError.system("mkdtemp", errno: errno) }
        path = String(cString: made)
    }

    deinit { Self.removeTree(path) }

    private static func removeTree(_ path: String) {
        if let directory = opendir(path) {
            while let entry = readdir(directory) {
                let name = withUnsafeBytes(of: entry.pointee.d_name) {
                    String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
                }
                if name != ".", name != ".." { removeTree("\(path)/\(name)") }
            }
            closedir(directory)
        }
        _ = Glibc.remove(path)
    }
}

/// Lets this process have as many descriptors as a user may, and says how many that are.
@discardableResult
func raiseDescriptorLimit() -> Int {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    getrlimit(resource, &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(resource, &limit)
    return Int(clamping: limit.rlim_cur)
}
