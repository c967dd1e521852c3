import CRunLoopShims
import Glibc
import RunLoops

extension WorkerProcess.Configuration {
    /// Starts the program, with these variables in addition.
    /// - Parameter crash: The descriptor for the program's ``CrashReport``.
    /// - Returns: The child's process id.
    func spawn(adding variables: [String: String], crash: Int32? = nil) throws(CheckInError) -> pid_t {
        let variables = try environment.updating(variables).entries()
        let paths =
            [workingDirectory ?? "", controlGroup ?? ""]
            + [standardInput, standardOutput, standardError].map(\.description)
        let words = [title ?? executable] + arguments
        for word in [executable] + words + variables + paths where word.utf8.contains(0) {
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

        if let crash {
            streams.append(fcntl(crash, F_DUPFD_CLOEXEC, CrashReport.descriptor + 1))
            if streams.last == -1 { throw failure("the descriptor for crashes", errno) }
        }
        let argv = words.map { strdup($0) } + [nil]
        let envp = variables.map { strdup($0) } + [nil]
        defer { for string in argv + envp { free(string) } }
        return try withCGroup { (cgroup) throws(CheckInError) in
            try spawn(argv, envp, streams, limits.all, cgroup)
        }
    }

    private func spawn(
        _ argv: [UnsafeMutablePointer<CChar>?], _ envp: [UnsafeMutablePointer<CChar>?], _ streams: [Int32],
        _ limits: [Limits.Limit], _ cgroup: Int32
    ) throws(CheckInError) -> pid_t {
        let limits = limits.map { limit in
            crl_limit(
                resource: limit.resource, most: limit.most,
                name: UnsafeRawPointer(limit.name.utf8Start).assumingMemoryBound(to: CChar.self))
        }
        let group =
            switch processGroup {
            case .inherited: CRL_GROUP_INHERITED
            case .own: CRL_GROUP_OWN
            case .ownSession: CRL_GROUP_SESSION
            }
        var pid: pid_t = 0
        var failed: UnsafePointer<CChar>?
        let (path, folder) = (strdup(executable), workingDirectory.flatMap { strdup($0) })
        defer {
            free(path)
            free(folder)
        }
        let error = argv.withUnsafeBufferPointer { argv in
            envp.withUnsafeBufferPointer { envp in
                limits.withUnsafeBufferPointer { limits in
                    var program = crl_program(
                        path: UnsafePointer(path), arguments: argv.baseAddress, environment: envp.baseAddress,
                        folder: folder,
                        standard: (streams[0], streams[1], streams[2]), group: Int32(group),
                        ends_with_launcher: endsWithLauncher, limits: limits.baseAddress,
                        limit_count: Int32(limits.count), niceness: Int32(clamping: niceness),
                        may_gain_privileges: mayGainPrivileges, cgroup: cgroup,
                        kept: streams.count > 3 ? streams[3] : 0)
                    return crl_spawn(&pid, &program, &failed)
                }
            }
        }
        guard error == 0 else { throw failure(failed.map { String(cString: $0) } ?? executable, error) }
        return pid
    }

    /// Calls the closure with the file that the worker's number is written to, or -1.
    private func withCGroup<Result>(_ body: (Int32) throws(CheckInError) -> Result) throws(CheckInError) -> Result {
        guard let controlGroup else { return try body(-1) }
        let file = Glibc.open(controlGroup + "/cgroup.procs", O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { throw failure("the control group \(controlGroup)", errno) }
        defer { close(file) }
        return try body(file)
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
            let name = String(variable.prefix { $0 != "=" })
            if changes[name] == nil, !ManagerVariables.names.contains(name) { entries.append(variable) }
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
