import Ports
import PortsInspection

/// What a ``MapPage`` draws: processes, their ports, and who sends to which.
struct PortDrawing {
    enum State: String {
        case served, busy, slow, unserved, stuck, flooded, silent

        var isTrouble: Bool { self != .served && self != .busy }

        /// Troubles come first, the worst before others.
        var rank: Int {
            switch self {
            case .stuck: 0
            case .unserved: 1
            case .silent: 2
            case .flooded: 3
            case .slow: 4
            case .busy: 5
            case .served: 6
            }
        }

        var word: String { self == .silent ? "no answer" : rawValue }
    }

    struct Port {
        let id: String
        var name: String
        var state = State.served
        var waiting: Int?
        var received: Int?
        /// By whom the port is served, and what is being handled: each in a line.
        var details: [String] = []
        var trouble: String?
        var remedy: String?
    }

    struct Process {
        let pid: Int
        var program: String?
        var ports: [Port] = []
    }

    struct Edge {
        let sender: Int
        let port: String
        var sent = 0
        var recently = 0
        /// What the sender waits for at the port.
        var waits = ""
    }

    var processes: [Process]
    var edges: [Edge]

    /// The names of the ports, by their ids.
    var names: [String: String] {
        Dictionary(processes.flatMap(\.ports).map { ($0.id, $0.name) }) { first, _ in first }
    }
}

extension PortDrawing {
    init(_ map: PortMap) {
        let waits = WaitChain.troubled(map.ports)
        processes = map.processes.map { process in
            Process(
                pid: Int(process.pid), program: (process.program ?? "") + (process.hasEnded ? " (ended)" : ""),
                ports: map.ports.filter { $0.owner == process.pid }.map { Port($0, waits: waits) })
        }
        edges = map.edges.map { edge in
            let waits = [
                edge.awaitedReplies > 0 ? "\(edge.awaitedReplies) without a reply" : "",
                edge.waitingSenders > 0 ? "\(edge.waitingSenders) waiting for room" : "",
            ].filter { !$0.isEmpty }
            return Edge(
                sender: Int(edge.sender), port: edge.port, sent: edge.sent, recently: edge.recently,
                waits: waits.joined(separator: ", "))
        }
    }
}

extension PortDrawing.Port {
    /// - Parameter waits: All ports in trouble.
    init(_ port: PortMap.NamedPort, waits: [String: WaitChain.Port]) {
        id = port.id
        name = port.names.joined(separator: ", ")
        (trouble, remedy) = (port.trouble, port.remedy)
        guard let service = port.service else {
            state = .silent
            return
        }
        state = PortDrawing.State(rawValue: service.condition.rawValue) ?? .served
        (waiting, received) = (service.queue.waiting, service.queue.received)
        let takers = service.takerTexts
        details = [
            service.isUnserved
                ? "Unserved" + takers.map { "; not served by \($0)" }.joined() + "."
                : "Served by " + takers.joined(separator: "; ") + "."
        ]
        let inHand = service.handling.map { "Handling \($0)." } + service.requests.oldest.map { "In progress: \($0)." }
        details += state == .busy && inHand.isEmpty ? ["A message is being handled, and no other waits."] : inHand
        if trouble != nil, let chain = WaitChain(from: port.id, in: waits) {
            trouble? += "; \(chain.text)"
            remedy = chain.remedy
        }
    }
}
