import TypedPorts

@testable import Ports

/// A request for a stream of numbers from 0 on.
private struct Numbers: PortStreamRequest {
    typealias Element = Int
    let count: Int
}

private struct Square: PortRequest {
    typealias Reply = Int
    let number: Int
}

// The typed requests and streams of a program, by tasks.

extension Program {
    /// Runs a task, and waits for its end.
    func wait(for body: @escaping @Sendable () async -> Void) {
        let isDone = Kept(false)
        Task {
            await body()
            isDone.value = true
        }
        _ = machine.wait(until: nil) { isDone.value }
    }

    func serveTyped() {
        while goesOn {
            let name = scenario.typedName(below(scenario.nameCount))
            guard let names, let server = attempt({ try RequestServer(name: name, nameServer: names) }) else {
                pause(50 + below(100))
                continue
            }
            let right = server.port.sendRight
            promises.made(right.id, by: process, queueLimit: 1000) { [weak server] in server?.port.isValid == true }
            promises.took(name, right.id)
            server.handle(Square.self) { request in request.number * request.number }
            server.handle(Numbers.self) { request in
                AsyncStream { writer in
                    for number in 0..<request.count { writer.yield(number) }
                    writer.finish()
                }
            }
            let isDone = Kept(false)
            let work = Task {
                try? await server.run()
                isDone.value = true
            }
            let life = below(3) == 0 ? below(3_000) : 100_000
            _ = machine.wait(until: machine.now + UInt64(life) * 1_000_000) { [self] in !goesOn }
            promises.ends(right.id)
            if below(2) == 0 {
                wait { [self] in await server.finish(before: after(2_000)) }
            } else {
                server.port.invalidate()
            }
            work.cancel()
            _ = machine.wait(until: nil) { isDone.value }
        }
    }

    func askTyped() {
        while goesOn {
            wait { [self] in
                guard let names else { return }
                let client = RequestClient(scenario.typedName(below(scenario.nameCount)), nameServer: names)
                for _ in 0...below(5) where goesOn {
                    if below(2) == 0 { await askForSquare(client) } else { await askForNumbers(client) }
                }
            }
            pause(30 + below(200))
        }
    }

    private func askForSquare(_ client: RequestClient) async {
        let number = below(1_000)
        let mayRepeat = below(2) == 0
        guard
            let reply = try? await client.request(
                Square(number: number), timeout: .milliseconds(below(4_000)), mayRepeat: mayRepeat)
        else { return }
        if reply != number * number { machine.fail("a request for the square of \(number) got \(reply)") }
    }

    /// A stream has all its elements in order, or ends with an error.
    private func askForNumbers(_ client: RequestClient) async {
        let count = below(4) == 0 ? below(2_000) : below(50)
        var next = 0
        do {
            for try await number in client.stream(Numbers(count: count), timeout: .milliseconds(below(4_000))) {
                if number != next { machine.fail("a stream brought \(number) in place of \(next)") }
                next += 1
            }
        } catch { return }
        if next != count { machine.fail("a stream of \(count) numbers ended without an error after \(next)") }
        promises.noteStream()
    }
}
