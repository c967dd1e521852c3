#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports
    import PortsInspection
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

        private struct Finding: Encodable {
            enum State: String, Encodable { case ok, warning, error }

            let check: String
            var state = State.ok
            let text: String
            var remedy: String?
            /// The port in trouble.
            var name: String?
            var pid: Int32?
            var condition: PortInfo.Condition?
            /// The ports that wait for each other, when the trouble comes from another port.
            var chain: WaitChain?

            private enum CodingKeys: CodingKey { case check, state, name, pid, condition, text, remedy, root, deadlock }

            func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(check, forKey: .check)
                try container.encode(state, forKey: .state)
                try container.encodeIfPresent(name, forKey: .name)
                try container.encodeIfPresent(pid, forKey: .pid)
                try container.encodeIfPresent(condition, forKey: .condition)
                try container.encode(text, forKey: .text)
                try container.encodeIfPresent(remedy, forKey: .remedy)
                try container.encodeIfPresent(chain?.root?.name, forKey: .root)
                try container.encode(chain?.deadlockStart != nil, forKey: .deadlock)
            }

            /// Errors come first, and among those what is not the trouble of another.
            var rank: Int { (state == .error ? 0 : state == .warning ? 2 : 4) + (chain == nil ? 0 : 1) }
            var style: Style { state == .error ? .error : state == .warning ? .warning : .good }

            var subject: String {
                guard let name else { return check }
                let condition = condition.map { $0 == .unknown ? "" : " is \($0.rawValue)" } ?? ""
                return "“\(name.escaped)”" + condition
            }

            func show(toWidth width: Int?) {
                let indent = String(repeating: " ", count: 9)
                let start = style(state.rawValue) + indent.dropFirst(state.rawValue.count)
                for (number, line) in wrapped("\(subject): \(text)", toWidth: width).enumerated() {
                    print((number == 0 ? start : indent) + line)
                }
                for line in remedy.map({ wrapped($0, toWidth: width) }) ?? [] { print(indent + Style.quiet(line)) }
            }
        }

        func run() throws {
            let directory = finding("directory", directory)
            var findings = [directory, descriptors(), sockets(), library()]
            // In a bad directory these would report the same error. The order matters, because making a port sweeps.
            if directory.state != .error {
                findings += [
                    finding("leftovers", leftovers), finding("notifications", notifications), finding("port", port),
                ]
                findings += hiddenOwners()
                do { findings += try ports() } catch { findings.append(failure("ports", error)) }
            }
            if output.isJSON {
                print(json: findings)
            } else {
                let width = terminalWidth.map { max(40, $0 - 9) }
                for finding in width == nil ? findings : findings.sorted(by: { $0.rank < $1.rank }) {
                    finding.show(toWidth: width)
                }
            }
            if findings.contains(where: { $0.state == .error }) { throw ExitCode(1) }
        }

        private func failure(_ check: String, _ error: any Error) -> Finding {
            Finding(check: check, state: .error, text: "\(error)".escaped)
        }

        private func finding(_ check: String, _ find: () throws(PortError) -> Finding) -> Finding {
            do throws(PortError) { return try find() } catch { return failure(check, error) }
        }

        private func directory() throws(PortError) -> Finding {
            let names = PortNameServer.shared
            let made = names.isMissing ? ", which was not there and is made now" : ""
            let count = try names.registrations().count
            let origin = ["PORTS_DIRECTORY", "XDG_RUNTIME_DIR"].first(where: isSet)
            let choice = origin.map { "from " + $0 } ?? "the default"
            return Finding(
                check: "directory",
                text: "\(names.path.escaped) (\(choice))\(made), \(count) name\(count == 1 ? "" : "s")")
        }

        private func isSet(_ variable: String) -> Bool { getenv(variable).map { $0.pointee != 0 } ?? false }

        private func leftovers() throws(PortError) -> Finding {
            let names = PortNameServer.shared
            let dead = Set(try names.names()).subtracting(try names.registrations().map(\.name)).count
            if dead == 0 { return Finding(check: "leftovers", text: "none") }
            return Finding(
                check: "leftovers", state: .warning, text: "\(dead) name\(dead == 1 ? "" : "s") of killed processes",
                remedy: "the names are free; portctl sweep removes the files")
        }

        private func descriptors() -> Finding {
            let limit = rlimit(of: RLIMIT_NOFILE).rlim_max
            let text = "at most \(limit) in a process (RLIMIT_NOFILE)"
            if limit >= 1024 { return Finding(check: "descriptors", text: text) }
            return Finding(
                check: "descriptors", state: .warning, text: text,
                remedy: "each port and each connection takes one or two: raise the hard limit (ulimit -Hn)")
        }

        private func sockets() -> Finding {
            let context: ZeroMQContext
            do { context = try ZeroMQContext(maxSockets: .max) } catch {
                return Finding(check: "sockets", state: .error, text: "libzmq cannot make a context: \(error)")
            }
            defer { context.terminate() }
            return Finding(check: "sockets", text: "at most \(context.maxSockets) in a process (ZMQ_MAX_SOCKETS)")
        }

        private func notifications() throws(PortError) -> Finding {
            _ = try PortNameWatch()
            return Finding(check: "notifications", text: "inotify has an instance left")
        }

        private func library() -> Finding {
            let version = ZeroMQContext.libraryVersion
            let text = "\(version.major).\(version.minor).\(version.patch)"
            if (version.major, version.minor) >= (4, 3) { return Finding(check: "libzmq", text: text) }
            return Finding(
                check: "libzmq", state: .error, text: text, remedy: "install libzmq 4.3 (apt-get install libzmq5)")
        }

        /// The ports that have messages and are not served as they should be, or that all are well.
        private func ports() throws -> [Finding] {
            var reports = try PortReport.all(PortNameServer.shared.registrations(), observing: .milliseconds(500))
            // A slow or stuck handler shows only in time.
            let busy = reports.filter { $0.condition == .busy }.map(\.registration)
            if !busy.isEmpty {
                reports = try reports.filter { $0.condition != .busy } + PortReport.all(busy, observing: .seconds(2))
            }
            let troubled = WaitChain.troubled(reports)
            let troubles = reports.compactMap { report in
                report.trouble.map { text, remedy in
                    let chain = WaitChain(from: report.registration.port.id.description, in: troubled)
                    return Finding(
                        check: "ports", state: report.isServed ? .warning : .error,
                        text: text.escaped + (chain.map { "; \($0.text)" } ?? ""), remedy: chain?.remedy ?? remedy,
                        name: report.registration.name, pid: report.registration.pid, condition: report.condition,
                        chain: chain)
                }
            }
            if !troubles.isEmpty { return troubles }
            let text =
                reports.isEmpty ? "nobody has a name in this directory" : "no name has messages that nobody takes"
            return [Finding(check: "ports", text: text)]
        }

        private func hiddenOwners() -> [Finding] {
            let path = PortNameServer.shared.path
            return HiddenOwner.all(in: path).map { owner in
                let text =
                    "process \(owner.pid) uses a former directory at \(path), which was "
                    + "removed or moved: nobody finds its names"
                return Finding(check: "hidden", state: .error, text: text.escaped, remedy: "restart the process")
            }
        }

        private func port() throws(PortError) -> Finding {
            let port = try MachPort()
            defer { port.invalidate() }
            let name = "portctl doctor \(getpid())"
            try PortNameServer.shared.register(port, name: name)
            _ = try PortNameServer.shared.port(forName: name)
            return Finding(check: "port", text: "a port was made, registered and found")
        }
    }
#endif
