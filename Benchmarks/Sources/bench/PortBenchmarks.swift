import Glibc
import Ports
import RunLoops

/// How many messages wait for a receiver that bounds its queue: the ports' own default.
let queueLimit: Int32 = 1000

/// Compares the ports with what people would use instead. Raw libzmq has the same frames, wait and queues.
enum PortBenchmarks {
    private static let payloads = [0, 32, 256, 1 << 10, 16 << 10, 256 << 10, 4 << 20]

    static let conditions = """
        two CPUs: each end is bound to one of its own; one CPU: both are bound to the same; unbound: a pool's threads,
        which may run both ends on one CPU
        the ports and raw libzmq queue \(queueLimit) messages, the others between threads bound no queue
        –: a contender cannot do it, or there were too few round trips

        """

    static func rows(directory: String) throws -> [Row] {
        let frame = try portFrame()
        let threads = Shared { try Team.inThreads(frame) }
        let processes = Shared { try Team.inProcesses(frame, directory) }
        return rows(threads, "two threads", [.apart, .together])
            // Libzmq's own threads stand between the two ends of raw sockets, on any CPU.
            + rows(processes, "two processes", [.apart, .together])
            + polledRows(frame, directory) + inFlightRows(threads, "two threads", [32])
            + inFlightRows(processes, "two processes", [32])
            + handOverRows(threads) + senderRows(threads) + fullQueueRows + crowdRows(frame) + memoryRows(frame)
            + lifeRows(frame, directory) + TypedPeer.rows + XPCPeer.rows + natsRows + PoolPeer.rows + MemoryPeer.rows
            + hostRows + foundationRows
    }

    private static var natsRows: [Row] {
        #if NATS_PEER
            NATSPeer.rows
        #else
            []
        #endif
    }

    /// Loops that stay awake for the next message.
    private static func polledRows(_ frame: RawFrame, _ directory: String) -> [Row] {
        let threads = Shared { try Team.polledThreads(frame) }
        let processes = Shared { try Team.polledProcesses(frame, directory) }
        return [
            ("two threads", Placement.apart, threads), ("two threads", .together, threads),
            ("two processes", .apart, processes),
        ].map { part, placement, team in
            Row(part: part, work: "round trip, loops polled for 50 µs", placement: placement, payload: 32) {
                let work = Work(payload: 32, placement)
                return try team.value.contest(Work.roundTrip) { work.roundTrip($0) }
            }
        }
    }

    private static func handOverRows(_ team: Shared<Team>) -> [Row] {
        [64 << 10, 1 << 20, 64 << 20].map { payload in
            Row(part: "two threads", work: "arrays handed over, one way", placement: .apart, payload: payload) {
                let work = Work(payload: payload, .apart)
                let bytes = SharedBytes(work.payload)
                return try team.value.contest(Work.rate) { work.rate($0, handingOver: bytes) }
            }
        }
    }

    private static func inFlightRows(_ team: Shared<Team>, _ part: String, _ payloads: [Int]) -> [Row] {
        payloads.flatMap { payload in
            [1, 10, 100, 1000].map { count in
                Row(
                    part: part, work: "requests and answers, \(byteCount(payload))", placement: .apart,
                    variant: "\(formatted(Double(count), digits: 0)) in flight"
                ) {
                    let work = Work(payload: payload, .apart)
                    return try team.value.contest(Work.rate) { work.rate($0, inFlight: count) }
                }
            }
        }
    }

    /// Ports that take turns, which one thread serves.
    /// A port that is served by something else than a `ThreadRunLoop`, which only the first one is.
    private static var hostRows: [Row] {
        let hosts = Shared {
            Team(members: [
                Team.Member(name: "ours", contender: try PortPeer.inThread { try OurThread() }),
                Team.Member(name: "epoll, PortDescriptor", contender: try PortPeer.inThread { try EpollThread() }),
                Team.Member(name: "Foundation's RunLoop", contender: try PortPeer.inThread { try FoundationThread() }),
                Team.Member(name: "SwiftNIO, an actor", contender: try PortPeer.inThread { NIOHost() }),
                Team.Member(name: "a queue, unbound", contender: try PortPeer.inThread { QueueThread() }),
                Team.Member(name: "a task, unbound", contender: try PortPeer.inThread { TaskHost() }),
            ])
        }
        return [64, 1 << 10].flatMap { payload in
            let work = Work(payload: payload, .apart)
            return [
                Row(part: "ports in other loops", work: "one way", placement: .apart, payload: payload) {
                    try hosts.value.contest(Work.rate) { work.rate($0) }
                },
                Row(part: "ports in other loops", work: "round trip", placement: .apart, payload: payload) {
                    try hosts.value.contest(Work.roundTrip) { work.roundTrip($0) }
                },
            ]
        }
    }

    /// Foundation's loop: our ports beside its only port, and beside the same ports in our loop.
    private static var foundationRows: [Row] {
        let socket = Shared { try FoundationPeer.socket() }
        let ownLoop = Shared { try PortPeer.inThread { try OurThread() } }
        func rows(_ part: String, _ ours: Shared<some Contender>) -> [Row] {
            [64, 1 << 10].flatMap { payload in
                let work = Work(payload: payload, .apart)
                return [
                    Row(part: part, work: "round trip", placement: .apart, payload: payload) {
                        Contest(
                            quantities: Work.roundTrip,
                            contestants: [
                                Contestant("ours", limits: [], work.roundTrip(try ours.value)),
                                Contestant(
                                    "MachPort, our loop", limits: [[.atMost(1.5)]], work.roundTrip(try ownLoop.value)),
                                Contestant(
                                    "SocketPort", limits: [[.atMost(payload == 64 ? 0.15 : 0.05)]],
                                    work.roundTrip(try socket.value)),
                            ])
                    },
                    Row(part: part, work: "one way", placement: .apart, payload: payload) {
                        Contest(
                            quantities: Work.rate,
                            contestants: [
                                Contestant("ours", limits: [], work.rate(try ours.value)),
                                Contestant(
                                    "MachPort, our loop", limits: [[.atLeast(0.5)]], work.rate(try ownLoop.value)),
                            ])
                    },
                ]
            }
        }
        return rows("MachPort in RunLoop", Shared { try PortPeer.inThread { try FoundationThread() } })
            + rows("NSMachPort in RunLoop", Shared { try FoundationPeer.ours() })
    }

    private static func crowdRows(_ frame: RawFrame) -> [Row] {
        crowdSizes.map { size in
            Row(
                part: "two threads", work: "one way, 32 B, to many", placement: .apart,
                variant: size == 1 ? "1 port" : "\(formatted(Double(size), digits: 0)) ports"
            ) {
                let payload = [UInt8](repeating: 7, count: 32)
                let crowds: [(String, any Crowd)] = [
                    ("ours", try PortCrowd(size)), (Team.raw, try RawCrowd(size, frame)),
                ]
                return Contest(
                    quantities: Work.rate,
                    contestants: crowds.map { Contestant($0, limits: [], $1.rate(payload: payload, .apart)) })
            }
        }
    }

    /// Up to 4,000 where there are descriptors for them: a port takes three, and the raw sockets beside it two.
    private static var crowdSizes: [Int] {
        let most = min(4000, (raiseDescriptorLimit() - 1000) / 5)
        return [1, 10, 100, 1000].filter { $0 < most } + [most]
    }

    private static func lifeRows(_ frame: RawFrame, _ directory: String) -> [Row] {
        [false, true].map { named in
            Row(part: named ? "a named port" : "a port", work: "made, used once, ended") {
                Contest(
                    .microseconds, ours: { try PortLife.ofPort(named: named) },
                    Contestant("PUSH and PULL", .atMost(1.5)) {
                        try PortLife.ofRaw(frame, directory: directory, named: named)
                    })
            }
        }
    }

    private static func memoryRows(_ frame: RawFrame) -> [Row] {
        [false, true].map { sent in
            Row(part: "memory", work: sent ? "heap of a port that has had a message" : "heap of a port") {
                var contest = Contest(
                    .bytes, ours: { try CrowdMemory.ofPort(sent: sent) },
                    Contestant(sent ? "PUSH and PULL" : "PULL") {
                        try CrowdMemory.ofRaw(frame, sent: sent)
                    })
                contest.isRepeated = false
                return contest
            }
        }
    }

    private static func rows(_ team: Shared<Team>, _ part: String, _ placements: [Placement]) -> [Row] {
        payloads.flatMap { payload in
            let isLimited = payload == 32 || payload == 1 << 10
            let rate = Row(part: part, work: "one way", placement: .apart, payload: payload) {
                let work = Work(payload: payload, .apart)
                return try team.value.contest(Work.rate, limits: isLimited ? [[.atLeast(0.5), .atLeast(0.9)]] : []) {
                    work.rate($0)
                }
            }
            let trips = placements.map { placement in
                Row(part: part, work: "round trip", placement: placement, payload: payload) {
                    let work = Work(payload: payload, placement)
                    return try team.value.contest(
                        Work.roundTrip, limits: isLimited ? [[.atMost(1.5), .atMost(1.1)]] : []
                    ) { work.roundTrip($0) }
                }
            }
            return [rate] + trips
        }
    }

    private static func senderRows(_ team: Shared<Team>) -> [Row] {
        [32, 1 << 10].flatMap { payload in
            [1, 2, 4, 8].map { count in
                let variant = count == 1 ? "1 sender" : "\(count) senders"
                return Row(
                    part: "threads to one", work: "one way, \(byteCount(payload))", placement: .apart, variant: variant
                ) {
                    let work = Work(payload: payload, .apart)
                    let senders = try SenderThreads(count, .apart)
                    return try team.value.contest(Work.rate, amongMany: true) { work.rate($0, from: senders) }
                }
            }
        }
    }

    /// How many senders wait must not matter.
    private static var fullQueueRows: [Row] {
        [4, 16, 32].map { count in
            Row(
                part: "threads to one", work: "one way, a queue of 2", placement: .apart, variant: "\(count) senders"
            ) {
                let (many, one) = (try FullQueue(senders: count), try FullQueue(senders: 1))
                let messages = 3200
                return Contest(
                    .messagesASecond, ours: { try many.rate(messages) },
                    Contestant("1 sender", .atLeast(0.8)) { try one.rate(messages) })
            }
        }
    }

    /// The bytes that a port's frame has besides its payload, in the library's own words: it names the size of a frame
    /// that is too large.
    private static func portFrame() throws -> RawFrame {
        let port = try MachPort(messageLimit: 1)
        do throws(PortError) {
            try port.sendRight.send(bytes: [UInt8](repeating: 0, count: 1024).span.bytes)
        } catch .messageTooLarge(_, let size, _) {
            return RawFrame(overhead: size - 1024)
        }
        throw BenchError.system("a frame's size", errno: 0)
    }
}

/// The contenders of a row, ours first.
struct Team: Sendable {
    static let raw = "raw libzmq"

    fileprivate struct Member: Sendable {
        let name: String
        let contender: any Contender
        /// Differs from another member only where several threads send.
        var isForMany = false
    }

    fileprivate let members: [Member]

    static func inThreads(_ frame: RawFrame) throws -> Team {
        Team(members: [
            Member(name: "ours", contender: try PortPeer.inThread { try OurThread() }),
            Member(name: raw, contender: try RawPeer.inThread("shared", frame)),
            Member(
                name: "raw libzmq, a PUSH each", contender: try RawPeer.inThread("each", frame, outboxes: 8),
                isForMany: true),
            Member(name: "eventfd, epoll", contender: try MailboxPeer<EventMailbox>()),
            Member(name: "CFRunLoop blocks", contender: try MailboxPeer<BlockMailbox<CFThread>>()),
            Member(name: "SwiftNIO execute", contender: try MailboxPeer<BlockMailbox<NIOThread>>()),
            Member(name: "Dispatch queues, unbound", contender: try MailboxPeer<BlockMailbox<QueueThread>>()),
            Member(name: "AsyncStream, unbound", contender: try MailboxPeer<StreamMailbox>()),
        ])
    }

    static func polledThreads(_ frame: RawFrame) throws -> Team {
        Team(members: [
            Member(name: "ours", contender: try PortPeer.inThread { try OurThread(pollingTime: .microseconds(50)) }),
            Member(name: raw, contender: try RawPeer.inThread("beside polled", frame)),
        ])
    }

    static func polledProcesses(_ frame: RawFrame, _ directory: String) throws -> Team {
        let folder = directory + "/polled"
        guard mkdir(folder, 0o700) == 0 else { throw BenchError.system("mkdir", errno: errno) }
        return Team(members: [
            Member(name: "ours", contender: try PortPeer<OurThread>.inChild(pollingTime: .microseconds(50))),
            Member(name: raw, contender: try RawPeer.inChild(folder, frame)),
        ])
    }

    static func inProcesses(_ frame: RawFrame, _ directory: String) throws -> Team {
        let members = [
            Member(name: "ours", contender: try PortPeer<OurThread>.inChild()),
            Member(name: raw, contender: try RawPeer.inChild(directory, frame)),
            Member(name: "SEQPACKET, epoll", contender: try PacketPeer.inChild(directory, frame)),
            Member(name: "SwiftNIO, unix socket", contender: try NIOPeer.inChild(directory)),
        ]
        let extra = try ExtraPeers.built.map { Member(name: $0.name, contender: try $0.inChild(directory)) }
        return Team(members: members + extra)
    }

    /// - Parameter limits: For the ratio of ours to raw libzmq.
    func contest(
        _ quantities: [Quantity], limits: [[Limit]] = [], amongMany: Bool = false,
        _ measure: (any Contender) -> Measurement
    ) -> Contest {
        Contest(
            quantities: quantities,
            contestants: members.filter { amongMany || !$0.isForMany }.map { member in
                Contestant(member.name, limits: member.name == Self.raw ? limits : [], measure(member.contender))
            })
    }
}

/// A value that several rows use, made when the first of them has its turn.
final class Shared<Value: Sendable>: @unchecked Sendable {
    // Sound: one row is measured at a time.
    private var made: Value?
    private let make: @Sendable () throws -> Value

    init(_ make: @escaping @Sendable () throws -> Value) { self.make = make }

    var value: Value {
        get throws {
            if let made { return made }
            let value = try make()
            made = value
            return value
        }
    }
}
