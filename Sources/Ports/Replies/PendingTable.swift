protocol Request: Sendable {
    var port: PortID { get }
}

/// Requests that wait, by number and by port, so that the end of a port costs no more than the requests to the port.
struct PendingTable<Waiting: Request> {
    private var requests: [UInt64: Waiting] = [:]
    private var numbers: [PortID: Set<UInt64>] = [:]

    subscript(number: UInt64) -> Waiting? { requests[number] }

    func all(to port: PortID) -> [Waiting] { numbers[port, default: []].compactMap { requests[$0] } }

    func count(to port: PortID) -> Int { numbers[port]?.count ?? 0 }

    mutating func add(_ request: Waiting, _ number: UInt64) {
        requests[number] = request
        numbers[request.port, default: []].insert(number)
    }

    mutating func remove(_ number: UInt64) -> Waiting? {
        guard let request = requests.removeValue(forKey: number) else { return nil }
        let port = request.port
        numbers[port]?.remove(number)
        if numbers[port]?.isEmpty == true { numbers[port] = nil }
        return request
    }

    mutating func removeAll(to port: PortID) -> [Waiting] {
        (numbers.removeValue(forKey: port) ?? []).compactMap { requests.removeValue(forKey: $0) }
    }
}
