import Ports
import PortsInspection

/// A map of ports to be drawn: processes, their ports, and the messages between them.
struct PortDrawing: Encodable {
    struct Port: Encodable {
        let id: String
        var name: String
        /// The raw value of a `PortInfo.Condition`.
        var state = PortInfo.Condition.served.rawValue
        var waiting: Int?
        var taken: Int?
        /// A line for those who serve the port, and one for each message in its handlers.
        var details: [String] = []
        var trouble: String?
        var remedy: String?

        var condition: PortInfo.Condition { PortInfo.Condition(rawValue: state) ?? .unknown }
        var isInTrouble: Bool { ![.served, .busy, .unknown].contains(condition) }
    }

    struct Process: Encodable {
        let pid: Int
        var title: String
        /// The path of its program, if it is known.
        var path = ""
        var ports: [Port] = []
        /// A line for each pool of workers.
        var pools: [String] = []
    }

    struct Edge: Encodable {
        let sender: Int
        let port: String
        var sent = 0
        var recently = 0
        /// The things that the sender is waiting for at the port, in words.
        var waits: [String] = []
    }

    var processes: [Process]
    var edges: [Edge]
}

extension PortDrawing {
    init(_ map: PortMap) {
        let troubled = WaitChain.troubled(map.ports)
        processes = map.processes.map { process in
            let program = process.program.map(\.escaped)
            return Process(
                pid: Int(process.pid),
                title: "\(program?.split(separator: "/").last ?? "unknown program") (pid \(process.pid))"
                    + (process.hasEnded ? " (ended)" : ""),
                path: program ?? "", ports: map.ports.filter { $0.owner == process.pid }.map { Port($0, in: troubled) },
                pools: process.pools.map(\.text.escaped))
        }
        edges = map.edges.map { edge in
            let waits = [(edge.awaitedReplies, "without a reply"), (edge.waitingSenders, "waiting for room")]
            return Edge(
                sender: Int(edge.sender), port: edge.port, sent: edge.sent, recently: edge.recently,
                waits: waits.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" })
        }
    }
}

extension PortDrawing.Port {
    fileprivate init(_ port: PortMap.NamedPort, in troubled: [String: WaitChain.Port]) {
        id = port.id
        name = port.names.joined(separator: ", ").escaped
        (trouble, remedy) = (port.trouble, port.remedy)
        state = port.condition.rawValue
        guard let info = port.info else { return }
        (waiting, taken) = (info.queue.waiting, info.queue.received)
        let takers = info.takerTexts
        details = [
            info.isUnserved
                ? "Unserved" + takers.map { "; not served by \($0)" }.joined() + "."
                : "Served by " + takers.joined(separator: "; ") + "."
        ]
        let inHand = info.handling.map { "Handling \($0)." } + info.requests.oldest.map { "In progress: \($0)." }
        details += condition == .busy && inHand.isEmpty ? ["A message is being handled, and no other waits."] : inHand
        if trouble != nil, let chain = WaitChain(from: port.id, in: troubled) {
            trouble? += "; \(chain.text)"
            remedy = chain.remedy
        }
    }
}
