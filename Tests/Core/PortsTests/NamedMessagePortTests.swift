import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Clients that outlive their servers. No test blocks its thread.
@Suite(.ownThread) struct NamedMessagePortTests {
    let sandbox = Sandbox()

    private func server(_ answer: UInt8) throws -> (LocalMessagePort, Task<Void, any Error>, PortRuntime) {
        let runtime = PortRuntime(directory: sandbox.path)
        let server = try LocalMessagePort(name: "store", nameServer: runtime.nameServer)
        return (server, Task { try await server.serve { _ in [answer] } }, runtime)
    }

    @Test func `a request waits for the first owner, and goes to the next after its end`() async throws {
        let store = NamedMessagePort("store", nameServer: sandbox.names)
        let asking = Task { try await store.request(MachPort.Message(id: 1)).data }
        for answer in [1, 2, 3] as [UInt8] {
            let (server, serving, runtime) = try server(answer)
            if answer == 1 { #expect(try await asking.value == [1]) }
            #expect(try await store.request(MachPort.Message(id: 1)).data == [answer])
            #expect(await Helper { try? store.request(MachPort.Message(id: 1)).data }.ended() == [answer])
            #expect(try await store.request(id: 1, [7]) == [answer])
            #expect(await Helper { try? store.request(id: 1, [7]) }.ended() == [answer])
            let former = try await store.port().sendRight
            await server.finish()
            try await serving.value
            // Before its end is told, a request goes to this port.
            #expect(await waitUntil { !former.isValid })
            withExtendedLifetime(runtime) {}
        }
        await #expect(throws: PortError.nameNotFound("store", directory: sandbox.path)) {
            _ = try await store.request(MachPort.Message(id: 1), timeout: .milliseconds(20))
        }
    }

    @Test func `what was refused is sent again, and what may have been handled only if it may`() async throws {
        let store = NamedMessagePort("store", nameServer: sandbox.names)
        for mayRepeat in [false, true] {
            let (child, names) = (Child("serve", "store", in: sandbox), sandbox.names)
            #expect(await waitUntil { (try? names.registration(forName: "store")) != nil })
            #expect(try await store.request(MachPort.Message(id: 1, data: [5])).data == [5])
            let channel = try await store.port().sendRight.channel
            // The server keeps the request without a reply.
            let sent = channel.sentCount
            let asking = Task { try await store.request(MachPort.Message(id: 97), mayRepeat: mayRepeat).data }
            #expect(await waitUntil { channel.sentCount == sent + 1 })
            child.kill()
            #expect(await waitUntil { (try? names.registration(forName: "store")) == .some(nil) })
            if !mayRepeat {
                await #expect(throws: PortError.becameInvalid(port: channel.identity)) { try await asking.value }
                continue
            }
            let (server, serving, runtime) = try server(9)
            #expect(try await asking.value == [9])
            server.invalidate()
            try await serving.value
            withExtendedLifetime(runtime) {}
        }
    }

    @Test func `a port that goes on refusing is asked ever more seldom, until the deadline`() async throws {
        let port = try MachPort(nameServer: sandbox.names) { _ in }
        let thread = try await RunLoopThread()
        try port.schedule(in: thread.loop)
        try sandbox.names.register(port, name: "store")
        let store = NamedMessagePort("store", nameServer: sandbox.names)
        let error = await #expect(throws: PortError.self) {
            _ = try await store.request(MachPort.Message(id: 1), timeout: .milliseconds(300))
        }
        // The last answer may come too late for a busy machine.
        #expect(error == .refused(port: port.identity) || error == .receiveTimedOut(port: port.identity))
        // At once, at once again, and after 10, 20, 40, 80, 160 milliseconds.
        #expect(await waitUntil { port.receiver.look().statistics.received > 0 })
        #expect(port.receiver.look().statistics.received <= 8)
        await #expect(throws: CancellationError.self) {
            let asking = Task { try await store.request(MachPort.Message(id: 1), timeout: .seconds(1000)) }
            asking.cancel()
            _ = try await asking.value
        }
        thread.stop()
    }

    @Test func `a message with an invalid right inside fails at once`() async throws {
        let (server, serving, runtime) = try server(1)
        let other = try MachPort(nameServer: sandbox.names)
        other.invalidate()
        let store = NamedMessagePort("store", nameServer: sandbox.names)
        let message = MachPort.Message(id: 1, [.port(other.sendRight)])
        await #expect(throws: PortError.isInvalid(port: other.identity)) {
            _ = try await store.request(message, timeout: .seconds(1 << 40))
        }
        let error = await Helper { () -> PortError? in
            do throws(PortError) {
                _ = try store.request(message, timeout: .seconds(1 << 40))
                return nil
            } catch { return error }
        }.ended()
        #expect(error == .isInvalid(port: other.identity))
        #expect(try await store.request(MachPort.Message(id: 1)).data == [1])
        server.invalidate()
        try await serving.value
        withExtendedLifetime(runtime) {}
    }

    @Test func `which errors another attempt may follow`() throws {
        let port = PortIdentity(PortID(incarnation: .random(), number: 1))
        let other = PortIdentity(PortID(incarnation: .random(), number: 1))
        func follows(_ error: PortError, isSent: Bool, mayRepeat: Bool = false) -> Bool {
            var attempts = RequestAttempts(mayRepeat: mayRepeat)
            return (try? attempts.pause(after: error, isSent: isSent, from: port.id, before: .now + .seconds(9))) != nil
        }
        #expect(follows(.refused(port: port), isSent: true))
        for error in [PortError.isInvalid(port: port), .becameInvalid(port: port), .connectionLost(port: port)] {
            #expect(follows(error, isSent: false))
            #expect(!follows(error, isSent: true))
            #expect(follows(error, isSent: true, mayRepeat: true))
        }
        for error in [
            PortError.unanswered(port: port), .receiveTimedOut(port: port), .failed(port: port, RequestFailure("")),
            .messageTooLarge(port: port, size: 2, limit: 1), .replyTooLarge(port: port, size: 2, limit: 1),
        ] {
            #expect(!follows(error, isSent: true, mayRepeat: true))
        }
        // Of a port inside the message.
        for error in [PortError.isInvalid(port: other), .becameInvalid(port: other)] {
            #expect(!follows(error, isSent: false, mayRepeat: true))
        }
    }
}
