import RunLoops

/// One way to send messages to somebody who counts them, and answers when asked to. Each contender has its own hot
/// loops, so that nothing of the benchmark's stands between the two that are compared.
protocol Contender {
    /// Has the two ends run there from the next message on.
    func bind(_ placement: Placement) throws

    /// Sends so many messages, and one that asks for an answer: how many seconds until it came.
    func oneWay(_ messages: Int, payload: [UInt8]) throws -> Double

    /// Sends so many messages, each after the answer to the one before: how many seconds that took.
    func roundTrips(_ messages: Int, payload: [UInt8]) throws -> Double

    /// Like ``oneWay(_:payload:)``, with the messages shared among the threads.
    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws -> Double
}

/// What a message's number says to the one who counts.
enum Request {
    /// Count it.
    static let count: UInt32 = 0
    /// Send the payload back; the answer's number is how many were counted since the last one.
    static let answer: UInt32 = 1

    /// Run there from now on.
    static func bind(_ placement: Placement) -> UInt32 { 2 + placement.rawValue }

    /// Where to run, if that is what the number says.
    static func placement(_ number: UInt32) -> Placement? { number < 2 ? nil : Placement(rawValue: number - 2) }
}

/// How many seconds a piece of work takes.
func seconds(_ work: () throws -> Void) rethrows -> Double {
    let start = MonotonicInstant.now
    try work()
    return Double(MonotonicInstant.now.nanoseconds - start.nanoseconds) / 1e9
}
