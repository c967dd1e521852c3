/// A request that waits for something of a port.
protocol PendingRequest: Sendable {
    var port: PortID { get }
}

/// Requests that wait, by their ids and by port, so that the end of a port costs no more than the requests to the port.
struct PendingTable<ID: Hashable, Waiting: PendingRequest> {
    private var requests: [ID: Waiting] = [:]
    private var ids: [PortID: Set<ID>] = [:]

    var isEmpty: Bool { requests.isEmpty }

    subscript(id: ID) -> Waiting? { requests[id] }

    func all(to port: PortID) -> [Waiting] { ids[port, default: []].compactMap { requests[$0] } }

    func ids(to port: PortID, where isMeant: (Waiting) -> Bool = { _ in true }) -> [ID] {
        ids[port, default: []].filter { requests[$0].map(isMeant) ?? false }
    }

    /// The requests to all ports of a process.
    func ids(toPortsOf owner: Incarnation, where isMeant: (Waiting) -> Bool) -> [ID] {
        ids.keys.filter { $0.incarnation == owner }.flatMap { self.ids(to: $0, where: isMeant) }
    }

    func count(to port: PortID) -> Int { ids[port]?.count ?? 0 }

    func counts(atMost most: Int) -> [(port: PortID, count: Int)] { ids.prefix(most).map { ($0.key, $0.value.count) } }

    mutating func add(_ request: Waiting, _ id: ID) {
        requests[id] = request
        ids[request.port, default: []].insert(id)
    }

    /// Changes a request, which stays at its port.
    /// - Returns: Nil when it does not wait.
    mutating func change<Result>(_ id: ID, _ body: (inout Waiting) -> Result) -> Result? {
        requests.index(forKey: id).map { body(&requests.values[$0]) }
    }

    mutating func remove(_ id: ID) -> Waiting? {
        guard let request = requests.removeValue(forKey: id) else { return nil }
        let port = request.port
        ids[port]?.remove(id)
        if ids[port]?.isEmpty == true { ids[port] = nil }
        return request
    }

    mutating func removeAll(to port: PortID) -> [Waiting] {
        (ids.removeValue(forKey: port) ?? []).compactMap { requests.removeValue(forKey: $0) }
    }
}
