import FarRequests
import Glibc
import NATSPorts
import TypedPorts

/// A process that serves a name on NATS, or asks, until it is killed: for tests.
///
///     far-peer serve URL NAME OWN-NAME [FILE]    appends the text of each Echo that it handles to the file
///     far-peer ask URL NAME                      asks for a long time
///     far-peer block URL NAME                    asks for six seconds, with all threads of its tasks blocked
///     far-peer load URL NAME CLIENTS SECONDS     asks again and again, and prints the outcomes
///     far-peer read URL NAME COUNT SIZE          reads a stream, and prints the outcome
@main struct FarPeer {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count >= 4 else { fatalError("far-peer serve|ask|load|read URL NAME …") }
        // The servers of the tests are in networks of their own.
        let options = NATSOptions(name: "far-peer", allowsUnprotected: true)
        let nats = try await NATSConnection(arguments[2], options: options)
        let client = try RequestClient(arguments[3], on: nats)
        switch arguments[1] {
        case "serve": try await serve(nats, client, Array(arguments.dropFirst(3)))
        case "load":
            say("ready")
            say(await Load(client).outcomes(clients: Int(arguments[4]) ?? 1, seconds: Int(arguments[5]) ?? 1))
        case "block":
            say("ready")
            async let reply = client.request(Echo("kept", after: .seconds(6)), timeout: .seconds(60))
            for _ in 0..<sysconf(Int32(_SC_NPROCESSORS_ONLN)) { Task.detached { usleep(5_500_000) } }
            say(try await reply.text)
        case "read":
            say("ready")
            let numbers = Numbers(count: Int(arguments[4]) ?? 1, size: Int(arguments[5]) ?? 1)
            let (count, error) = await Load.read(numbers, client)
            say("\(count) \(error.map { "\($0)" } ?? "complete")")
            // The connection goes on by itself.
            while (try? await client.request(Echo("again"))) == nil { try await Task.sleep(for: .milliseconds(100)) }
            say("answered")
        default:
            say("ready")
            say(try await client.request(Echo("long", after: .seconds(300)), timeout: .seconds(600)).text)
        }
    }

    private static func serve(_ nats: NATSConnection, _ client: RequestClient, _ arguments: [String]) async throws {
        let server = try RequestServer(name: arguments[0], on: nats)
        let file = arguments.count > 2 ? open(arguments[2], O_WRONLY | O_CREAT | O_APPEND, 0o600) : -1
        server.handleFarRequests(
            as: arguments.count > 1 ? arguments[1] : "peer",
            noteEcho: { text in
                // One call, so that lines of several tasks do not mix.
                if file >= 0, text != "ready" { _ = write(file, text + "\n", text.utf8.count + 1) }
            })
        let running = Task { try await server.run() }
        // It serves when it, or one of the others, answers.
        while (try? await client.request(Echo("ready"))) == nil {}
        say("ready")
        // The end of the input asks for an orderly end.
        await Task.detached { while readLine() != nil {} }.value
        await server.finish(timeout: .seconds(20))
        try await running.value
        nats.close()
    }

    private static func say(_ line: String) {
        print(line)
        fflush(nil)
    }
}

/// Many clients that ask again and again. Each request and each stream has one outcome.
private struct Load {
    private let client: RequestClient

    init(_ client: RequestClient) { self.client = client }

    private struct Counts {
        var asked = 0, replies = 0, errors = 0, streams = 0, complete = 0, wrong = 0

        static func += (left: inout Counts, right: Counts) {
            left.asked += right.asked
            left.replies += right.replies
            left.errors += right.errors
            left.streams += right.streams
            left.complete += right.complete
            left.wrong += right.wrong
        }
    }

    func outcomes(clients: Int, seconds: Int) async -> String {
        let end = ContinuousClock.now + .seconds(seconds)
        var sum = Counts()
        await withTaskGroup(of: Counts.self) { group in
            for number in 0..<clients {
                group.addTask { number.isMultiple(of: 4) ? await read(until: end) : await ask(number, until: end) }
            }
            for await counts in group { sum += counts }
        }
        return "asked \(sum.asked) replies \(sum.replies) errors \(sum.errors) streams \(sum.streams) complete "
            + "\(sum.complete) wrong \(sum.wrong)"
    }

    private func ask(_ number: Int, until end: ContinuousClock.Instant) async -> Counts {
        var counts = Counts()
        while ContinuousClock.now < end {
            let text = "\(getpid()) \(number) \(counts.asked)"
            counts.asked += 1
            do {
                let echoed = try await client.request(Echo(text, after: .milliseconds(5)), timeout: .seconds(8))
                if echoed.text == text { counts.replies += 1 } else { counts.wrong += 1 }
            } catch {
                counts.errors += 1
                // Nobody may serve for a moment.
                try? await Task.sleep(for: .milliseconds(20))
            }
        }
        return counts
    }

    private func read(until end: ContinuousClock.Instant) async -> Counts {
        var counts = Counts()
        while ContinuousClock.now < end {
            counts.streams += 1
            let (count, error) = await Self.read(Numbers(count: 300, size: 100, pause: .milliseconds(3)), client)
            if count < 0 { counts.wrong += 1 }
            if error == nil {
                if count == 300 { counts.complete += 1 } else { counts.wrong += 1 }
            } else {
                try? await Task.sleep(for: .milliseconds(20))
            }
        }
        return counts
    }

    /// - Returns: The elements before the end, or −1 when one was missing or came twice.
    static func read(_ numbers: Numbers, _ client: RequestClient) async -> (count: Int, error: (any Error)?) {
        var count = 0
        do {
            for try await element in client.stream(numbers) {
                guard element.number == count else { return (-1, nil) }
                count += 1
            }
            return (count, nil)
        } catch {
            return (count, error)
        }
    }
}
