import CBench
import Dispatch
import RunLoops

/// One way to send messages to somebody who counts them, and answers when asked to. Each contender has its own hot
/// loops, so that nothing of the benchmark's stands between those that are compared.
protocol Contender: Sendable {
    /// The process of the other end, if that is not ours.
    var child: Child? { get }

    /// Places the two ends on processors, from the next message on.
    func bind(_ placement: Placement) throws

    /// Sends this number of messages, and returns when all have been counted.
    func oneWay(_ messages: Int, payload: [UInt8]) throws

    /// Does the same with the messages shared among the threads.
    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws

    /// Asks this number of questions, and returns when all have been answered.
    /// - Parameters:
    ///   - inFlight: How many questions are under way; each answer makes room for the next one.
    ///   - clock: Told when the first question is asked, and of each answer.
    func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws

    /// Whether the ends can be bound. A pool's threads cannot: the pool chooses them.
    var canBind: Bool { get }

    /// The sizes of the payloads that get through.
    var payloads: ClosedRange<Int> { get }

    /// How many messages may be under way; one way, there is no telling.
    var inFlightLimit: Int { get }
}

extension Contender {
    var child: Child? { nil }
    var canBind: Bool { true }
    var payloads: ClosedRange<Int> { 0...(.max) }
    var inFlightLimit: Int { .max }

    /// The time on CPUs that the processes of both ends have used.
    var cpuSeconds: Double { cb_cpu_seconds(0) + (child.map { cb_cpu_seconds($0.pid) } ?? 0) }
}

/// A contender that can give an array away without copying its bytes, as ends of one process can.
protocol HandingOver: Contender {
    /// Hands the bytes over once for each message, and returns when all messages have been counted.
    func oneWay(_ messages: Int, handingOver bytes: SharedBytes) throws
}

/// The meaning of a message's number for the end that answers.
enum Request {
    /// Count the message.
    static let count: UInt32 = 0
    /// Send the payload back.
    static let answer: UInt32 = 1

    /// End, with all that the end that answers has made.
    static let end = firstExpected - 1

    /// Run there from now on.
    static func bind(_ placement: Placement) -> UInt32 { 2 + placement.rawValue }

    /// Where to run, if that is what the number says.
    static func placement(_ number: UInt32) -> Placement? {
        (bind(.apart)..<firstExpected).contains(number) ? Placement(rawValue: number - bind(.apart)) : nil
    }

    /// Send an empty answer when this number has been counted. Messages of other senders may overtake this one.
    static func expect(_ count: Int) -> UInt32 { firstExpected + UInt32(count) }
    fileprivate static let firstExpected: UInt32 = 16
}

/// The end that answers: what it does about a message.
struct Echo {
    enum Reply {
        case none
        case payload
        case empty
    }

    private var counted: UInt32 = 0
    private var expected: UInt32 = .max

    @inline(__always)
    mutating func reply(to number: UInt32) -> Reply {
        if number == Request.count {
            counted &+= 1
            return counted == expected ? finish() : .none
        }
        return number == Request.answer ? .payload : prepare(number)
    }

    private mutating func prepare(_ number: UInt32) -> Reply {
        if let placement = Request.placement(number) {
            placement.bindFar()
            return .none
        }
        expected = number - Request.firstExpected
        return counted == expected ? finish() : .none
    }

    private mutating func finish() -> Reply {
        (counted, expected) = (0, .max)
        return .empty
    }
}

/// The end that asks: how many questions have yet to be asked and answered.
struct Questions {
    enum Next {
        case ask
        case wait
        case finish
    }

    private var unasked: Int
    private var unanswered: Int

    /// - Parameter asked: How many are asked before the first answer.
    init(_ count: Int, asked: Int) {
        unasked = count - asked
        unanswered = count
    }

    @inline(__always)
    mutating func answered() -> Next {
        unanswered -= 1
        if unasked > 0 {
            unasked -= 1
            return .ask
        }
        return unanswered == 0 ? .finish : .wait
    }
}

/// How many seconds a piece of work takes.
func seconds(_ work: () throws -> Void) rethrows -> Double {
    try ContinuousClock().measure(work) / .seconds(1)
}

/// The other end answers long before, or never. It waits for questions itself as long as it takes.
let answerSeconds: Int32 = 60

extension DispatchSemaphore {
    func waitForAnswer() throws {
        guard wait(timeout: .now() + .seconds(Int(answerSeconds))) == .success else { throw BenchError.noAnswer }
    }
}
