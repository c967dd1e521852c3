import Glibc
import Ports
import RunLoops

/// How many messages wait for a receiver, on either side: the ports' own default.
let queueLimit: Int32 = 1000

/// Compares the ports with raw libzmq: the same frames, the same kind of wait, the same queues, in one run.
enum PortBenchmarks {
    private static let payloads = [(size: 32, name: "32 B"), (size: 1024, name: "1 KiB")]
    private static let rounds = 15
    private static let roundTripsARound = 1500

    static func run() throws {
        // Before the first port: where both processes look for names.
        let directory = try TemporaryDirectory()
        setenv("PORTS_DIRECTORY", directory.path, 1)

        let frame = try portFrame()
        print(Machine.description)
        let frames = payloads.map { "\(frame.overhead + $0.size) B for a payload of \($0.name)" }
        print("frames of both: \(frames.joined(separator: ", ")); queues: \(queueLimit) messages")
        print("raw, ours, raw, ours…; medians of \(rounds) rounds")
        print("two CPUs: each end is bound to one of its own; one CPU: both are bound to the same\n")
        fflush(nil)

        var verdicts = Table()
        try betweenThreads(frame, &verdicts)
        try betweenProcesses(frame, directory.path, &verdicts)
        print(verdicts.text)
    }

    private static func betweenThreads(_ frame: RawFrame, _ verdicts: inout Table) throws {
        let threads = (try RunLoopThread(name: "raw echo"), try RunLoopThread(name: "port echo"))
        let raw = try RawPeer.inThread(threads.0, frame)
        let ours = try PortPeer.inThread(threads.1)
        try compare(raw, ours, "two threads, inproc", messages: [120_000, 80_000], [.apart, .together], &verdicts)

        let senders = try SenderThreads(4)
        var table = Table()
        table.add(["four threads to one", "raw + mutex", "ours", "ours / raw"])
        for payload in payloads {
            let messages = payload.size < 100 ? 20_000 : 16_000
            let bytes = [UInt8](repeating: 7, count: payload.size)
            let rate = try medians(
                rounds: rounds,
                [
                    { Double(messages) / (try raw.oneWay(messages, payload: bytes, from: senders)) },
                    { Double(messages) / (try ours.oneWay(messages, payload: bytes, from: senders)) },
                ])
            table.add(["\(payload.name), \(Measure.rate.name)"] + Measure.rate.row(rate))
        }
        show(table)
    }

    private static func betweenProcesses(_ frame: RawFrame, _ directory: String, _ verdicts: inout Table) throws {
        let raw = try RawPeer.inChild(directory, frame)
        let rawChild = try Child("raw \(frame.overhead) \(directory)")
        var child: Child?
        let ours = try PortPeer.inChild { child = try Child("ports") }
        // Libzmq's own threads stand between the two ends, so that these are not together on one CPU either.
        try compare(raw, ours, "two processes, ipc", messages: [100_000, 50_000], [.apart], &verdicts)
        withExtendedLifetime((rawChild, child)) {}
    }

    /// Rate and round trip of two contenders, for each payload.
    private static func compare(
        _ raw: some Contender, _ ours: some Contender, _ title: String, messages: [Int], _ placements: [Placement],
        _ verdicts: inout Table
    ) throws {
        var table = Table()
        table.add([title, "raw", "ours", "ours / raw"])
        for (payload, messages) in zip(payloads, messages) {
            let bytes = [UInt8](repeating: 7, count: payload.size)
            let trips = roundTripsARound
            func oneWay(_ contender: some Contender) throws -> Double {
                Double(messages) / (try contender.oneWay(messages, payload: bytes))
            }
            func roundTrip(_ contender: some Contender) throws -> Double {
                try contender.roundTrips(trips, payload: bytes) / Double(trips) * 1e6
            }
            func add(_ measure: Measure, _ name: String, _ medians: [Double]) {
                table.add([name] + measure.row(medians))
                verdicts.add(["\(title), \(name)"] + measure.verdict(medians))
            }
            let rate = try medians(rounds: rounds, [{ try oneWay(raw) }, { try oneWay(ours) }])
            add(.rate, "\(payload.name), \(Measure.rate.name)", rate)
            for placement in placements {
                try raw.bind(placement)
                try ours.bind(placement)
                let trip = try medians(rounds: rounds, [{ try roundTrip(raw) }, { try roundTrip(ours) }])
                add(.roundTrip, "\(payload.name), \(Measure.roundTrip.name), \(placement.name)", trip)
            }
            // What comes next, threads and children too, inherits where this thread may run.
            try raw.bind(.free)
            try ours.bind(.free)
        }
        show(table)
    }

    /// At once, where the output goes to a file too.
    private static func show(_ table: Table) {
        print(table.text + "\n")
        fflush(nil)
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
