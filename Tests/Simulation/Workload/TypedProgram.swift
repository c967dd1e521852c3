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
    /// Whether the server fails in place of a reply.
    var fails: Bool { number % 7 == 0 }
}

/// A request with a descriptor, and perhaps with memory in which the server writes.
private struct Carry: PortRequest {
    typealias Reply = Carried
    let number: UInt32
    let file: MessageDescriptor
    let buffer: SharedBuffer?
}

private struct Carried: Codable, Sendable {
    /// The descriptor of the request.
    let file: MessageDescriptor
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
            guard let names, let server = attempt({ try makeTypedServer(name, names) }) else {
                pause(50 + below(100))
                continue
            }
            let isDone = Kept(false)
            let limit = 1 + below(100)
            let work = Task {
                try? await server.run(atMost: limit, streamsAtMost: limit, whenFull: .refuse)
                isDone.value = true
            }
            let life = below(3) == 0 ? below(3_000) : 100_000
            _ = machine.wait(until: machine.now + UInt64(life) * 1_000_000) { [self] in !goesOn }
            promises.ends(server.sendRight.id, at: server.port.port.receiver.id)
            if below(2) == 0 {
                wait { await server.finish(timeout: .milliseconds(2_000)) }
            } else {
                server.port.invalidate()
            }
            work.cancel()
            _ = machine.wait(until: nil) { isDone.value }
        }
    }

    private func makeTypedServer(_ name: String, _ names: PortNameServer) throws(PortError) -> RequestServer {
        let begin = machine.now
        let server = try RequestServer(name: name, nameServer: names)
        let right = server.port.sendRight
        promises.made(right.id, by: process, queueLimit: 1000) { [weak server] in server?.port.isValid == true }
        promises.names.took(name, right.id, begin: begin)
        handleSquares(server)
        server.handle(Carry.self) { [self] request in
            checkCarried(request.file, request.number, "request")
            request.buffer?.withUnsafeMutableBytes { $0[0] &+= 1 }
            return Carried(file: request.file)
        }
        server.handle(Numbers.self) { request in
            AsyncStream { writer in
                for number in 0..<request.count { writer.yield(number) }
                writer.finish()
            }
        }
        return server
    }

    /// A lane handles no more requests at a time than its limit.
    private func handleSquares(_ server: RequestServer) {
        let fate: RequestLane.WhenFull = machine.chance.pick([.wait, .wait(upTo: 1), .refuse, .refuse(beyond: 2)])
        let lane = below(3) == 0 ? nil : RequestLane("squares", atMost: 1 + below(3), whenFull: fate)
        let running = Kept(0)
        server.handle(Square.self, in: lane) { [self] request in
            running.value += 1
            defer { running.value -= 1 }
            if let limit = lane?.limit, running.value > limit {
                machine.fail("a lane for \(limit) requests handles \(running.value)")
            }
            if below(4) == 0 { try await Task.sleep(for: .milliseconds(below(100))) }
            if request.fails { throw RequestFailure("\(request.number)") }
            return request.number * request.number
        }
    }

    func askTyped() {
        while goesOn {
            guard let names else { return }
            let client = RequestClient(scenario.typedName(below(scenario.nameCount)), nameServer: names)
            if below(3) == 0 {
                for _ in 0...below(5) where goesOn { askForSquare(client) }
            } else {
                wait { [self] in
                    for _ in 0...below(5) where goesOn {
                        switch below(5) {
                        case 0: await carry(client)
                        case 1, 2: await askForSquare(client)
                        default: await askForNumbers(client)
                        }
                    }
                }
            }
            pause(30 + below(200))
        }
    }

    private func makeSquare() -> (request: Square, timeout: Duration, mayRepeat: Bool, bound: WaitBound) {
        let (number, timeout) = (below(1_000), below(4_000))
        return (Square(number: number), .milliseconds(timeout), below(2) == 0, WaitBound(timeout))
    }

    private func askForSquare(_ client: RequestClient) {
        let (square, timeout, mayRepeat, bound) = makeSquare()
        defer { bound.check("a request for a square has its outcome") }
        check(square, Result { try client.request(square, timeout: timeout, mayRepeat: mayRepeat) })
    }

    private func askForSquare(_ client: RequestClient) async {
        let (square, timeout, mayRepeat, bound) = makeSquare()
        defer { bound.check("a request for a square has its outcome") }
        let asking = Task { try await client.request(square, timeout: timeout, mayRepeat: mayRepeat) }
        // The asker gives up.
        if below(8) == 0 {
            try? await Task.sleep(for: .milliseconds(below(50)))
            asking.cancel()
        }
        check(square, await asking.result)
    }

    private func check(_ square: Square, _ outcome: Result<Int, any Error>) {
        switch outcome {
        case .success(let reply):
            if square.fails || reply != square.number * square.number {
                machine.fail("a request for the square of \(square.number) got \(reply)")
            }
        case .failure(PortError.failed(_, let failure)):
            if !square.fails || failure.text != "\(square.number)" {
                machine.fail("a request for the square of \(square.number) got the failure \(failure)")
            }
        case .failure: break
        }
    }

    /// “A descriptor comes with its message or not at all, and none stays open that nobody takes.”
    private func carry(_ client: RequestClient) async {
        let number = promises.nextCarried()
        let file = MarkFile(.max, number)
        let descriptor = process.add(file)
        guard descriptor >= 0 else { return }
        promises.marks.append(file)
        let buffer = below(3) == 0 ? attempt { try SharedBuffer(byteCount: 4096) } : nil
        buffer?.withUnsafeMutableBytes { $0[0] = UInt8(truncatingIfNeeded: number) }
        let request = Carry(number: number, file: MessageDescriptor(owning: descriptor), buffer: buffer)
        guard let reply = try? await client.request(request, timeout: .milliseconds(below(4_000))) else { return }
        checkCarried(reply.file, number, "the reply to request")
        let isWritten = buffer?.withUnsafeMutableBytes { $0[0] == UInt8(truncatingIfNeeded: number) &+ 1 } ?? true
        if !isWritten { machine.fail("request \(number) came with other memory") }
    }

    private func checkCarried(_ file: MessageDescriptor, _ number: UInt32, _ what: String) {
        do throws(PortError) {
            let mark = process.descriptors[try file.number] as? MarkFile
            if mark?.line != .max || mark?.number != number {
                machine.fail("\(what) \(number) came with another descriptor")
            }
        } catch {
            switch error {
            case .outOfDescriptors, .transport: break
            default: machine.fail("\(what) \(number) came without its descriptor: \(error)")
            }
        }
    }

    /// A stream has all its elements in order, or ends with an error.
    private func askForNumbers(_ client: RequestClient) async {
        let count = below(4) == 0 ? below(2_000) : below(50)
        let end = below(4) == 0 ? below(50) : .max
        var next = 0
        do {
            for try await number in client.stream(Numbers(count: count), timeout: .milliseconds(below(4_000))) {
                if number != next { machine.fail("a stream brought \(number) in place of \(next)") }
                next += 1
                if next > end { return }
            }
        } catch { return }
        if next != count { machine.fail("a stream of \(count) numbers ended without an error after \(next)") }
        promises.noteStream()
    }
}
