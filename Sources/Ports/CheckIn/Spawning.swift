import CRunLoopShims
import Glibc

extension WorkerProcess.Configuration {
    /// Starts the program, with these variables in addition.
    /// - Returns: The child's process id.
    func spawn(adding variables: [String: String]) throws(CheckInError) -> pid_t {
        let variables = try environment.updating(variables).entries()
        let paths = [workingDirectory ?? ""] + [standardInput, standardOutput, standardError].map(\.description)
        for word in [executable] + arguments + variables + paths where word.utf8.contains(0) {
            throw .notLaunched(reason: "\(word.debugDescription) contains a NUL")
        }
        // The child resolves the path in the same way. Its failure there would look like a failure to start the
        // program.
        if let folder = workingDirectory, access(folder.isEmpty ? "" : folder + "/.", X_OK) != 0 {
            throw failure("the working directory \(folder)", errno)
        }
        var streams: [Int32] = []
        defer { for descriptor in streams where descriptor >= 0 { close(descriptor) } }
        for (stream, name) in [(standardInput, "input"), (standardOutput, "output"), (standardError, "error")] {
            streams.append(stream.open(forReading: streams.isEmpty))
            if stream != .inherit, streams.last == -1 { throw failure("standard \(name), \(stream)", errno) }
        }

        var argv = ([executable] + arguments).map { strdup($0) } + [nil]
        var envp = variables.map { strdup($0) } + [nil]
        defer { for string in argv + envp { free(string) } }
        var pid: pid_t = 0
        let error = crl_spawn(&pid, executable, &argv, &envp, workingDirectory, streams)
        guard error == 0 else { throw failure(executable, error) }
        return pid
    }

    private func failure(_ what: String, _ error: Int32) -> CheckInError {
        .notLaunched(reason: "\(what): \(String(cString: strerror(error)))")
    }
}

extension WorkerProcess.Configuration.Environment {
    fileprivate func entries() throws(CheckInError) -> [String] {
        for name in changes.keys where name.isEmpty || name.contains("=") {
            throw .notLaunched(reason: "\(name.debugDescription) cannot be the name of a variable")
        }
        var entries = changes.compactMap { name, value in value.map { "\(name)=\($0)" } }
        var inherited = environ
        while isInherited, let entry = inherited.pointee {
            let variable = String(cString: entry)
            if changes[String(variable.prefix { $0 != "=" })] == nil { entries.append(variable) }
            inherited += 1
        }
        return entries
    }
}

extension WorkerProcess.Configuration.Stream: CustomStringConvertible {
    /// The path or the number of the descriptor.
    public var description: String {
        switch self {
        case .inherit: "inherited"
        case .discard: "/dev/null"
        case .descriptor(let number): "descriptor \(number)"
        case .file(let path): path
        }
    }

    /// Opens a descriptor above the standard ones, because the child moves it to a standard number, and must not
    /// overwrite one that it has not moved yet.
    /// - Returns: -1 to inherit; -1, with an `errno`, on failure.
    fileprivate func open(forReading isInput: Bool) -> Int32 {
        switch self {
        case .inherit: return -1
        case .descriptor(let number): return fcntl(number, F_DUPFD_CLOEXEC, 3)
        case .discard: return Self.open("/dev/null", O_RDWR)
        case .file(let path): return Self.open(path, isInput ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND)
        }
    }

    private static func open(_ path: String, _ flags: Int32) -> Int32 {
        // The open of a FIFO would wait for its other end.
        let file = Glibc.open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0o666)
        guard file >= 0 else { return file }
        defer { close(file) }
        _ = fcntl(file, F_SETFL, flags & O_APPEND)
        return fcntl(file, F_DUPFD_CLOEXEC, 3)
    }
}
