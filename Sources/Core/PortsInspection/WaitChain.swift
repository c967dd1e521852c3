import Ports

/// The ports from one in trouble to its root, each of which waits for the next.
package struct WaitChain {
    /// A port in trouble.
    package struct Port {
        package let id: String
        package let name: String
        package let condition: PortInfo.Condition
        /// The ids of the ports whose replies its process waits for.
        package var awaited: [String] = []

        package init(id: String, name: String, condition: PortInfo.Condition, awaited: [String] = []) {
            (self.id, self.name, self.condition, self.awaited) = (id, name.printable, condition, awaited)
        }

        /// A flooded port waits for no other here, because its process may wait on behalf of another port.
        init(id: String, name: String, _ condition: PortInfo.Condition, _ info: PortInfo?) {
            let waits = [.stuck, .slow].contains(condition) ? info?.awaited ?? [] : []
            self.init(id: id, name: name, condition: condition, awaited: waits.map(\.port))
        }
    }

    /// From the port to the root. In a deadlock, each waits for the next, and the last for one before.
    package let ports: [Port]
    /// The index of the first port of the deadlock; nil for none.
    package let deadlockStart: Int?

    /// Follows all that each port waits for. A deadlock counts before a root.
    /// - Returns: Nil for a port that waits for no other in trouble.
    package init?(from id: String, in troubled: [String: Port]) {
        guard let first = troubled[id] else { return nil }
        var seen: Set = [id]
        var toRoot: [Port]?

        /// Looks for a deadlock behind a path, which is not empty.
        func deadlock(behind path: [Port]) -> (ports: [Port], start: Int)? {
            let next = path[path.count - 1].awaited.compactMap { troubled[$0] }
            if next.isEmpty, path.count > 1, toRoot == nil { toRoot = path }
            for port in next {
                if let start = path.firstIndex(where: { $0.id == port.id }) { return (path, start) }
            }
            for port in next where seen.insert(port.id).inserted {
                if let found = deadlock(behind: path + [port]) { return found }
            }
            return nil
        }

        let found = deadlock(behind: [first])
        guard let ports = found?.ports ?? toRoot else { return nil }
        (self.ports, deadlockStart) = (ports, found?.start)
    }

    /// The port at the root of the waits; nil for a deadlock.
    package var root: Port? { deadlockStart == nil ? ports.last : nil }

    package var text: String {
        let cycle = deadlockStart.map { ports + [ports[$0]] } ?? ports
        let waits = zip(cycle, cycle.dropFirst()).map { "“\($0.name)” waits for “\($1.name)”" }.joined(separator: ", ")
        guard let root else { return waits + ": a deadlock" }
        return waits + ": the root is “\(root.name)”, which is \(root.condition.rawValue)"
    }

    package var remedy: String {
        guard let root else {
            return "let one of them reply later, or ask with a deadline, in place of a wait inside its handler"
        }
        return "look at “\(root.name)” first"
    }
}

extension WaitChain {
    /// The ports in trouble, by their ids.
    package static func troubled(_ reports: [PortReport]) -> [String: Port] {
        byID(
            reports.filter { $0.trouble != nil }.map {
                Port(id: $0.registration.port.id.description, name: $0.registration.name, $0.condition, $0.info)
            })
    }

    /// The ports in trouble, by their ids.
    package static func troubled(_ ports: [PortMap.NamedPort]) -> [String: Port] {
        byID(
            ports.filter { $0.trouble != nil }.map {
                Port(id: $0.id, name: $0.names.joined(separator: ", "), $0.condition, $0.info)
            })
    }

    private static func byID(_ ports: [Port]) -> [String: Port] {
        Dictionary(ports.map { ($0.id, $0) }) { first, _ in first }
    }
}
