import Ports

/// The processes with named ports, the processes that send to them, and the messages between them.
/// `PortNameServer.map(observing:before:)` makes a map. `portctl map --json` writes its coding.
public struct PortMap: Sendable, Hashable, Encodable {
    /// A process that has named ports, or sends to one.
    public struct Process: Sendable, Hashable, Encodable {
        /// The process id. 0 stands for all processes of which the kernel does not say it.
        public let pid: Int32
        /// The path of its program, or only the name when the process has ended; nil when the system does not say.
        public let program: String?
        /// False for an owner of ports that does not answer.
        public internal(set) var answers: Bool
        /// Whether the process has ended. Messages of it wait.
        public internal(set) var hasEnded = false
        /// Its pools of workers, if it has named ports.
        public internal(set) var pools: [PortInfo.Pool] = []

        private enum CodingKeys: String, CodingKey { case pid, program, answers, hasEnded = "ended", pools }
    }

    /// A port with a name.
    public struct NamedPort: Sendable, Hashable, Encodable {
        /// The port's number and its process, as in `PortID.description`: unique in the map.
        public let id: String
        /// Its names, sorted.
        public internal(set) var names: [String]
        /// The owner's process id.
        public let owner: Int32
        /// The condition of the port, in a word.
        public let condition: PortInfo.Condition
        /// The trouble of the port, in a sentence; nil for none.
        public let trouble: String?
        /// The remedy for the ``trouble``; nil for none.
        public let remedy: String?
        /// The owner's answer; nil when it does not answer.
        public let info: PortInfo?

        private enum CodingKeys: String, CodingKey {
            case id, names, owner, condition = "state", trouble, remedy, info
        }
    }

    /// The messages from a process to a port.
    public struct Edge: Sendable, Hashable, Encodable {
        /// The process id of the sender.
        public let sender: Int32
        /// The ``NamedPort/id``.
        public let port: String
        /// The messages that were sent since the sender is connected.
        public internal(set) var sent = 0
        /// The messages that were sent during the observation.
        public internal(set) var recently = 0
        /// The requests of the sender that wait for their replies; 0 when the sender has no named port to ask for.
        public internal(set) var awaitedReplies = 0
        /// The threads and tasks of the sender that wait for room at the port.
        public internal(set) var waitingSenders = 0
    }

    /// The processes, by their ids.
    public let processes: [Process]
    /// The named ports, by their first names.
    public let ports: [NamedPort]
    /// The messages, by port and by sender.
    public let edges: [Edge]

    init(_ reports: [PortReport]) {
        var (processes, ports): ([Int32: Process], [String: NamedPort]) = ([:], [:])
        for report in reports {
            let (pid, id) = (report.registration.pid, report.registration.port.id.description)
            processes[pid] = Process(
                pid: pid, program: report.registration.program,
                answers: processes[pid]?.answers == true || report.info != nil)
            let trouble = report.trouble ?? report.info?.troubleWithRemedy
            ports[id] = NamedPort(
                id: id, names: ((ports[id]?.names ?? []) + [report.registration.name]).sorted(), owner: pid,
                condition: report.condition, trouble: trouble?.text, remedy: trouble?.remedy, info: report.info)
        }
        for (owner, pool) in reports.pools { processes[owner]?.pools.append(pool) }
        var edges: [String: Edge] = [:]
        func change(_ sender: Int32, _ port: String, _ change: (inout Edge) -> Void) {
            change(&edges["\(sender) \(port)", default: Edge(sender: sender, port: port)])
        }
        for port in ports.values {
            // A sender that has ended, and of whose messages none waits, has perhaps only looked the name up.
            for sender in port.info?.senders ?? [] where !sender.hasEnded || sender.sinceEmpty > 0 {
                if processes[sender.pid] == nil {
                    let program = sender.pid == 0 ? nil : sender.program
                    processes[sender.pid] = Process(
                        pid: sender.pid, program: program, answers: true, hasEnded: sender.hasEnded)
                }
                change(sender.pid, port.id) { edge in
                    edge.sent &+= sender.sent
                    edge.recently &+= sender.recently
                }
            }
            // A process says the same for each of its ports. Ports without a name are not in the map.
            for awaited in port.info?.awaited ?? [] where ports[awaited.port] != nil {
                change(port.owner, awaited.port) { edge in
                    (edge.awaitedReplies, edge.waitingSenders) = (awaited.replies, awaited.senders)
                }
            }
        }
        self.processes = processes.values.sorted { $0.pid < $1.pid }
        self.ports = ports.values.sorted { $0.names[0] < $1.names[0] }
        self.edges = edges.values.sorted { ($0.port, $0.sender) < ($1.port, $1.sender) }
    }
}

extension PortNameServer {
    /// Asks the owners of all names, at the same time, who sends to them. Owners that do not answer are in the map, too.
    /// - Parameters:
    ///   - duration: The time of the observation of a port where something happens: zero to ten seconds.
    ///   - deadline: The end of the wait for owners that do not answer.
    /// - Throws: `PortError`: `invalidDuration`, or an error of the directory; `CancellationError`.
    public nonisolated(nonsending) func map(
        observing duration: Duration = .milliseconds(300), before deadline: ContinuousClock.Instant = .now + .seconds(2)
    ) async throws -> PortMap {
        try PortError.check("duration", duration, in: .zero...PortQuestion.longestObservation)
        let timeout = max(.seconds(1), ContinuousClock.now.duration(to: deadline) - duration)
        let reports = await PortReport.all(of: try registrations(), from: self, observing: duration, timeout: timeout)
        try Task.checkCancellation()
        return PortMap(reports)
    }
}
