import ArgumentParser
import Glibc
import Ports
import RunLoops
import ZeroMQ

struct Doctor: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check the directory, the system's limits and all named ports, and name remedies.",
        discussion: """
            Of the ports, doctor finds those where messages wait and nobody takes them, those whose loop, queue or thread is \
            stuck, and in what, those that get more messages than are handled, and from whom, and owners that are stopped. Of a service that waits for \
            another in trouble, doctor names the root, or the deadlock.
            """)

    @OptionGroup var output: JSONFlag

    private struct Finding {
        enum State: String { case ok, warning, error }

        var state = State.ok
        /// The service that was looked at, for one that is in trouble.
        var look: Look?
        let text: String
        var remedy: String?
        /// The ports that wait for each other, when the trouble comes from another port.
        var chain: WaitChain?

        /// Errors come first, and among those what is not the trouble of another.
        var rank: Int { (state == .error ? 0 : state == .warning ? 2 : 4) + (chain == nil ? 0 : 1) }
        var style: Style { state == .error ? .error : state == .warning ? .warning : .good }
    }

    func run() throws {
        let directory = finding(directory)
        var findings = [
            ("directory", directory), ("descriptors", descriptors()), ("sockets", sockets()), ("libzmq", library()),
        ]
        // In a bad directory these would report the same error. The order matters: making a port sweeps.
        if directory.state != .error {
            findings += [
                ("leftovers", finding(leftovers)), ("notifications", finding(notifications)), ("port", finding(port)),
            ]
            findings += hiddenOwners()
            do {
                findings += try services()
            } catch {
                findings.append(("service", Finding(state: .error, text: "\(error)".escaped)))
            }
        }
        if output.isJSON {
            let list = findings.map { subject, finding in
                JSON.object([
                    ("check", .string(subject)), ("state", .string(finding.state.rawValue)),
                    ("name", .string(finding.look?.registration.name)),
                    ("pid", .integer((finding.look?.registration.pid).map(Int.init))),
                    ("service", .string(finding.look?.state)),
                    ("text", .string(finding.text)), ("remedy", .string(finding.remedy)),
                    ("root", .string(finding.chain?.root?.name)),
                    ("deadlock", .bool(finding.chain?.deadlockStart != nil)),
                ])
            }
            print("\(JSON.array(list))")
        } else {
            let width = terminalWidth.map { max(40, $0 - 9) }
            let shown = width == nil ? findings : findings.sorted { $0.1.rank < $1.1.rank }
            for (subject, finding) in shown {
                let state = finding.state.rawValue
                let subject =
                    finding.look.map { look in
                        "“\(look.registration.name.escaped)”" + (look.state == "?" ? "" : " is \(look.state)")
                    } ?? subject
                let indent = String(repeating: " ", count: 9)
                for (number, line) in wrapped("\(subject): \(finding.text)", toWidth: width).enumerated() {
                    print((number == 0 ? finding.style(state) + indent.dropFirst(state.count) : indent) + line)
                }
                for line in finding.remedy.map({ wrapped($0, toWidth: width) }) ?? [] {
                    print(indent + Style.quiet(line))
                }
            }
        }
        if findings.contains(where: { $1.state == .error }) { throw ExitCode(1) }
    }

    private func finding(_ check: () throws(PortError) -> Finding) -> Finding {
        do throws(PortError) {
            return try check()
        } catch {
            return Finding(state: .error, text: "\(error)".escaped)
        }
    }

    private func directory() throws(PortError) -> Finding {
        let names = PortNameServer.shared
        let count = try names.registrations().count
        let origin = ["PORTS_DIRECTORY", "XDG_RUNTIME_DIR"].first(where: isSet)
        let choice = origin.map { "from " + $0 } ?? "the default"
        return Finding(text: "\(names.path.escaped) (\(choice)), \(count) name\(count == 1 ? "" : "s")")
    }

    private func isSet(_ variable: String) -> Bool { getenv(variable).map { $0.pointee != 0 } ?? false }

    private func leftovers() throws(PortError) -> Finding {
        let names = PortNameServer.shared
        let dead = Set(try names.names()).subtracting(try names.registrations().map(\.name)).count
        if dead == 0 { return Finding(text: "none") }
        return Finding(
            state: .warning, text: "\(dead) name\(dead == 1 ? "" : "s") of killed processes",
            remedy: "the names are free; portctl sweep removes the files")
    }

    private func descriptors() -> Finding {
        let limit = rlimit(of: RLIMIT_NOFILE).rlim_max
        let text = "at most \(limit) in a process (RLIMIT_NOFILE)"
        if limit >= 1024 { return Finding(text: text) }
        return Finding(
            state: .warning, text: text,
            remedy: "each port and each connection takes one or two: raise the hard limit (ulimit -Hn)")
    }

    private func sockets() -> Finding {
        guard let context = try? Context(maxSockets: .max) else {
            return Finding(state: .error, text: "libzmq cannot make a context")
        }
        defer { context.terminate() }
        return Finding(text: "at most \(context.maxSockets) in a process (ZMQ_MAX_SOCKETS)")
    }

    private func notifications() throws(PortError) -> Finding {
        _ = try PortNameWatch()
        return Finding(text: "inotify has an instance left")
    }

    private func library() -> Finding {
        let version = Context.libraryVersion
        let text = "\(version.major).\(version.minor).\(version.patch)"
        if (version.major, version.minor) >= (4, 3) { return Finding(text: text) }
        return Finding(state: .error, text: text, remedy: "install libzmq 4.3 (apt-get install libzmq5)")
    }

    /// The ports that have messages and are not served as they should be, or that all are well.
    private func services() throws -> [(String, Finding)] {
        var looks = try Look.all(PortNameServer.shared.registrations(), observing: .milliseconds(500))
        // Whether a handler is slow or stuck shows only in time.
        let busy = looks.filter { $0.service?.condition == .busy }.map(\.registration)
        if !busy.isEmpty {
            let again = try Look.all(busy, observing: .seconds(2))
            looks = looks.filter { $0.service?.condition != .busy } + again
        }
        let troubled = WaitChain.troubled(looks)
        let troubles = looks.compactMap { look in
            look.trouble.map { text, remedy in
                let state = look.isServed ? Finding.State.warning : .error
                let chain = WaitChain(from: look.registration.port.id.description, in: troubled)
                return (
                    "service",
                    Finding(
                        state: state, look: look, text: text.escaped + (chain.map { "; \($0.text)" } ?? ""),
                        remedy: chain?.remedy ?? remedy, chain: chain)
                )
            }
        }
        if !troubles.isEmpty { return troubles }
        let text = looks.isEmpty ? "nobody has a name in this directory" : "no name has messages that nobody takes"
        return [("service", Finding(text: text))]
    }

    private func hiddenOwners() -> [(String, Finding)] {
        let path = PortNameServer.shared.path
        return HiddenOwner.all(in: path).map { owner in
            let text =
                "process \(owner.pid) uses a former directory at \(path), which was "
                + "removed or moved: nobody finds its names"
            return ("hidden", Finding(state: .error, text: text.escaped, remedy: "restart the process"))
        }
    }

    private func port() throws(PortError) -> Finding {
        let port = try MachPort()
        defer { port.invalidate() }
        let name = "portctl doctor \(getpid())"
        try PortNameServer.shared.register(port, name: name)
        _ = try PortNameServer.shared.port(forName: name)
        return Finding(text: "a port was made, registered and found")
    }
}
