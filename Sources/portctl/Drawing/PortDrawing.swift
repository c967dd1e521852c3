import Ports

/// What a ``MapPage`` draws: processes, their ports, and who sends to which.
struct PortDrawing {
    enum State: String {
        case served, busy, slow, unserved, stuck, flooded, silent

        var isTrouble: Bool { self != .served && self != .busy }
    }

    struct Port {
        let id: String
        var name: String
        var state = State.served
        var waiting: Int?
        var received: Int?
        /// By whom the port is served, and what is wrong: each in a line.
        var details: [String] = []
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
}

extension PortDrawing {
    init(_ map: PortMap) {
        processes = map.processes.map { process in
            Process(
                pid: Int(process.pid), program: (process.program ?? "") + (process.hasEnded ? " (ended)" : ""),
                ports: map.ports.filter { $0.owner == process.pid }.map(Port.init))
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
    init(_ port: PortMap.NamedPort) {
        id = port.id
        name = port.names.joined(separator: ", ")
        guard let service = port.service else {
            state = .silent
            details = ["The owner does not answer: it is stopped, or its library is too old."]
            return
        }
        state = PortDrawing.State(rawValue: service.condition.rawValue) ?? .served
        (waiting, received) = (service.waiting, service.received)
        let takers = service.takers
        let by = service.isUnserved ? ["nobody"] + takers.map { "not by " + $0 } : takers
        details = ["Served by " + by.joined(separator: "; ") + "."]
        if state == .busy { details.append("A message is being handled, and no other waits.") }
        if let trouble = service.trouble {
            details.append(trouble + "." + (service.remedy.map { " What to do: \($0)." } ?? ""))
        }
    }
}
