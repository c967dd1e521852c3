import ArgumentParser
import Glibc
import Ports
import RunLoops
import ZeroMQ

struct Doctor: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check the directory and the system's limits, and name remedies.")

    @OptionGroup var output: JSONFlag

    private struct Finding {
        enum State: String {
            case ok
            case warning
            case error
        }

        var state = State.ok
        let subject: String
        let text: String
        var remedy: String?
    }

    func run() throws {
        let directory = directory()
        // In a bad directory they would report the same error. The order matters: making a port sweeps.
        let inDirectory = directory.state == .error ? [] : [leftovers, notifications, port]
        let findings = [directory] + ([descriptors, sockets, library] + inDirectory).map { check in check() }
        if output.isJSON {
            print("\(JSON.array(findings.map(json)))")
        } else {
            for finding in findings {
                let state = finding.state.rawValue
                print("\(state)\(String(repeating: " ", count: 9 - state.count))\(finding.subject): \(finding.text)")
                if let remedy = finding.remedy { print("         \(remedy)") }
            }
        }
        if findings.contains(where: { $0.state == .error }) { throw ExitCode(1) }
    }

    private func json(_ finding: Finding) -> JSON {
        .object([
            ("check", .string(finding.subject)), ("state", .string(finding.state.rawValue)),
            ("text", .string(finding.text)), ("remedy", finding.remedy.map { .string($0) } ?? .null),
        ])
    }

    private func finding(_ subject: String, _ body: () throws(PortError) -> Finding) -> Finding {
        do throws(PortError) {
            return try body()
        } catch {
            return Finding(state: .error, subject: subject, text: printable("\(error)"), remedy: remedy(for: error))
        }
    }

    /// The remedy; nil when the error's text names one.
    private func remedy(for error: PortError) -> String? {
        let path = PortNameServer.shared.path
        return switch error {
        case .directory(_, "mkdir", ENOENT): "make the directory that \(path) is to be in, or set PORTS_DIRECTORY"
        case .directory(_, _, ENOSPC): "the disk is full: make room, or set PORTS_DIRECTORY to another"
        case .directory(_, _, EACCES), .directory(_, _, EROFS): "set PORTS_DIRECTORY to a directory you may write to"
        default: nil
        }
    }

    // MARK: The checks

    private func directory() -> Finding {
        finding("directory") { () throws(PortError) in
            let names = PortNameServer.shared
            let count = try names.registrations().count
            let origin = ["PORTS_DIRECTORY", "XDG_RUNTIME_DIR"].first(where: isSet)
            let choice = origin.map { "from " + $0 } ?? "the default"
            let held = "\(count) name\(count == 1 ? "" : "s")"
            return Finding(subject: "directory", text: "\(printable(names.path)) (\(choice)), \(held)")
        }
    }

    private func isSet(_ variable: String) -> Bool { getenv(variable).map { $0.pointee != 0 } ?? false }

    private func leftovers() -> Finding {
        finding("leftovers") { () throws(PortError) in
            let names = PortNameServer.shared
            let dead = Set(try names.names()).subtracting(try names.registrations().map(\.name)).count
            return dead == 0
                ? Finding(subject: "leftovers", text: "none")
                : Finding(
                    state: .warning, subject: "leftovers",
                    text: "\(dead) name\(dead == 1 ? "" : "s") of killed processes",
                    remedy: "the names are free; portctl sweep removes the files")
        }
    }

    private func descriptors() -> Finding {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let text = "at most \(limit.rlim_max) in a process (RLIMIT_NOFILE)"
        return limit.rlim_max >= 1024
            ? Finding(subject: "descriptors", text: text)
            : Finding(
                state: .warning, subject: "descriptors", text: text,
                remedy: "each port and each connection takes one or two: raise the hard limit (ulimit -Hn)")
    }

    private func sockets() -> Finding {
        guard let context = try? Context(maxSockets: .max) else {
            return Finding(state: .error, subject: "sockets", text: "libzmq cannot make a context")
        }
        defer { context.terminate() }
        return Finding(subject: "sockets", text: "at most \(context.maxSockets) in a process (ZMQ_MAX_SOCKETS)")
    }

    private func notifications() -> Finding {
        finding("notifications") { () throws(PortError) in
            _ = try PortNameWatch()
            return Finding(subject: "notifications", text: "inotify has an instance left")
        }
    }

    private func library() -> Finding {
        let version = Context.libraryVersion
        let text = "\(version.major).\(version.minor).\(version.patch)"
        return (version.major, version.minor) >= (4, 3)
            ? Finding(subject: "libzmq", text: text)
            : Finding(
                state: .error, subject: "libzmq", text: text, remedy: "install libzmq 4.3 (apt-get install libzmq5)")
    }

    /// Makes, registers and finds a port.
    private func port() -> Finding {
        finding("port") { () throws(PortError) in
            let port = try MachPort()
            defer { port.invalidate() }
            let name = "portctl doctor \(getpid())"
            try PortNameServer.shared.register(port, name: name)
            _ = try PortNameServer.shared.port(forName: name)
            return Finding(subject: "port", text: "a port was made, registered and found")
        }
    }
}
