import DequeModule

/// The requests whose askers want no reply any more. A cancellation may come before its request, or after the reply.
struct CancelledRequests {
    private struct Asker {
        var numbers: Set<UInt64> = []
        /// In the order of their arrival, including cancellations whose requests have ended.
        var order: Deque<UInt64> = []
        var isGone = false

        /// Forgets the oldest beyond a count.
        mutating func keep(_ count: Int) {
            while order.count > count { numbers.remove(order.removeFirst()) }
        }
    }

    /// The most cancellations of one asker.
    static let most = 16_384
    /// The most cancellations of a process that is gone. Its requests may still wait at a port.
    static let mostOfGone = 64
    /// The most processes that are gone.
    static let mostGone = 256

    private var askers: [Incarnation: Asker] = [:]
    private var gone: Deque<Incarnation> = []

    var isEmpty: Bool { askers.isEmpty }

    func contains(_ request: RequestID) -> Bool {
        askers[request.asker]?.numbers.contains(request.number) ?? false
    }

    mutating func insert(_ request: RequestID) {
        var asker = askers.removeValue(forKey: request.asker) ?? Asker()
        if asker.numbers.insert(request.number).inserted {
            asker.isGone = false
            asker.order.append(request.number)
            asker.keep(Self.most)
        }
        askers[request.asker] = asker
    }

    mutating func remove(_ request: RequestID) {
        askers[request.asker]?.numbers.remove(request.number)
        if askers[request.asker]?.numbers.isEmpty == true { askers[request.asker] = nil }
    }

    /// The last connection to a process has ended. Processes that come and go must not take room without bound.
    mutating func askerIsGone(_ incarnation: Incarnation) {
        guard var asker = askers[incarnation], !asker.isGone else { return }
        asker.keep(Self.mostOfGone)
        // Copies free the room of the others.
        (asker.numbers, asker.order, asker.isGone) = (Set(Array(asker.numbers)), Deque(Array(asker.order)), true)
        askers[incarnation] = asker.numbers.isEmpty ? nil : asker
        gone.append(incarnation)
        if gone.count > Self.mostGone { askers[gone.removeFirst()] = nil }
    }

    /// The process is dead.
    mutating func forget(_ incarnation: Incarnation) { askers[incarnation] = nil }
}
