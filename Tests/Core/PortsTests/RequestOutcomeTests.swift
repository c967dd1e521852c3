import Foundation
import OwnThread
import PortsTestHelper
import RunLoops
import TestSupport
import Testing

@testable import Ports

/// Thousands of requests whose askers give up, or are killed, or whose servers are. No test blocks its thread.
@Suite(.ownThread) struct RequestOutcomeTests {
    let sandbox = Sandbox()

    @Test func `askers that give up or die leave no work and no memory of them`() async throws {
        let each = Scale.isLong ? 20_000 : 2000
        let runtimes = [PortRuntime(directory: sandbox.path), PortRuntime(directory: sandbox.path)]
        let server = try LocalMessagePort(name: "asked", nameServer: runtimes[0].nameServer)
        let (running, asked) = (Shared(0), Shared(0))
        let serving = Task {
            try await server.serve(atMost: 500) { request in
                asked.withLock { $0 += 1 }
                running.withLock { $0 += 1 }
                defer { running.withLock { $0 -= 1 } }
                // Only the asker's end ends this.
                if request.id == AskerRequest.endless { try await Task.sleep(for: .seconds(1000)) }
                return request.data
            }
        }
        let children = (0..<3).map { _ in Child("ask-and-give-up", "asked", "\(each)", in: sandbox) }
        let remotes = [
            RemoteMessagePort(server.sendRight),
            try await RemoteMessagePort(name: "asked", nameServer: runtimes[1].nameServer, before: .patience),
        ]
        let askers = remotes.map { remote in Task { await faultOfAskers(of: remote, each, seed: 1) } }
        #expect(await waitUntil { asked.withLock { $0 } > each })
        children[0].kill()
        for asker in askers { #expect(await asker.value == nil) }
        for child in children.dropFirst() {
            let status = await Helper { child.wait(before: Scale.patience) }.ended() ?? nil
            #expect(status == 0)
        }
        #expect(await waitUntil { running.withLock { $0 } == 0 })
        #expect(await waitUntil { !runtimes[0].notices.isWatched })
        for runtime in runtimes { #expect(runtime.replies.pending.pendingCount(to: server.sendRight.id) == 0) }
        #expect(await server.finish(before: .patience))
        try await serving.value
    }

    /// As when the server's process is stopped while its ring is on the way.
    @Test(.enabled(if: Sandbox.hasRings))
    func `a reply comes that waits for a ring when its server has ended`() async throws {
        let (owner, asker) = (PortRuntime(directory: sandbox.path), PortRuntime(directory: sandbox.path))
        let taken = Shared<MessagePortRequest?>(nil)
        let server = try LocalMessagePort(name: "asked", nameServer: owner.nameServer) { request in
            taken.withLock { $0 = request }
        }
        let loop = try await RunLoopThread()
        defer { loop.stop() }
        try server.schedule(in: loop.loop)
        let remote = try await RemoteMessagePort(name: "asked", nameServer: asker.nameServer, before: .patience)
        let asking = Task { try await remote.request(id: 1, timeout: .seconds(60)) }
        #expect(await waitUntil { taken.withLock { $0 != nil } })
        let goesOn = Latch()
        defer { goesOn.open() }
        try taken.withLock { $0 }?.replyRight?.reply(with: [1])
        // Behind the question for a ring.
        try owner.housekeeping.perform { _ = goesOn.wait(until: .patience) }
        #expect(await waitUntil { asker.ports.all.contains { $0.ringPeers.contains(owner.incarnation) } })
        server.invalidate()
        #expect(await waitUntil { !remote.isValid })
        // Time enough to give the reply up.
        try await Task.sleep(for: .milliseconds(500))
        goesOn.open()
        #expect(try await asking.value == [1])
    }

    @Test func `each request is handled once, though its server ends in order and another one comes`() async throws {
        let (lanes, each, lives) = (50, Scale.isLong ? 2000 : 100, Scale.isLong ? 200 : 30)
        let runtimes = [PortRuntime(directory: sandbox.path), PortRuntime(directory: sandbox.path)]
        let store = NamedMessagePort("store", nameServer: runtimes[1].nameServer)
        let (handled, answered) = (Shared<[[UInt8]: Int]>([:]), Shared(0))
        let asking = Task {
            await withTaskGroup(of: [String].self) { group in
                for lane in 0..<lanes {
                    group.addTask {
                        var faults: [String] = []
                        for number in 0..<each {
                            let data = [UInt8(lane)] + withUnsafeBytes(of: UInt32(number)) { Array($0) }
                            do {
                                let reply = try await store.request(
                                    MachPort.Message(id: 1, data: data), timeout: .seconds(60))
                                if reply.data != data { faults.append("another reply") }
                            } catch {
                                faults.append("\(error)")
                            }
                            answered.withLock { $0 += 1 }
                        }
                        return faults
                    }
                }
                return await group.reduce(into: []) { $0 += $1 }
            }
        }
        for life in 1...lives {
            let server = try LocalMessagePort(name: "store", nameServer: runtimes[0].nameServer)
            let serving = Task {
                try await server.serve { request in
                    handled.withLock { $0[request.data ?? [], default: 0] += 1 }
                    return request.data
                }
            }
            let goal = lanes * each * life / lives
            #expect(await waitUntil { answered.withLock { $0 } >= goal })
            #expect(await server.finish(before: .patience))
            try await serving.value
        }
        let faults = await asking.value
        #expect(faults == [])
        #expect(handled.withLock { $0.count } == lanes * each)
        #expect(handled.withLock { handled in handled.values.allSatisfy { $0 == 1 } })
    }

    @Test func `a request that must not be repeated is handled once at most, though servers are killed`() async throws {
        let count = Scale.isLong ? 20_000 : 1000
        let file = sandbox.file("handled")
        let store = NamedMessagePort("store", nameServer: sandbox.names)
        let done = Shared(0)
        let asking = Task {
            await withTaskGroup(of: (answered: Int, unknown: Int, fault: String?).self) { group in
                for lane in 0..<20 {
                    group.addTask {
                        var outcomes = (answered: 0, unknown: 0, fault: nil as String?)
                        for number in 0..<count / 20 {
                            let mayRepeat = number % 2 == 0
                            let data =
                                [UInt8(lane), mayRepeat ? 1 : 0] + withUnsafeBytes(of: UInt32(number)) { Array($0) }
                            do {
                                let reply = try await store.request(
                                    MachPort.Message(id: 1, data: data), timeout: .seconds(60), mayRepeat: mayRepeat)
                                outcomes.answered += 1
                                if reply.data != data { outcomes.fault = "another reply" }
                            } catch PortError.becameInvalid where !mayRepeat {
                                outcomes.unknown += 1
                            } catch {
                                outcomes.fault = "\(error)"
                            }
                            done.withLock { $0 += 1 }
                        }
                        return outcomes
                    }
                }
                return await group.reduce(into: (answered: 0, unknown: 0, fault: nil as String?)) {
                    $0 = ($0.answered + $1.answered, $0.unknown + $1.unknown, $0.fault ?? $1.fault)
                }
            }
        }
        for life in 1...5 {
            let server = Child("serve-and-tell", "store", file, in: sandbox)
            let goal = life == 5 ? count : count * life / 6
            #expect(await waitUntil { done.withLock { $0 } >= goal })
            server.kill()
        }
        let outcomes = await asking.value
        #expect(outcomes.fault == nil)
        #expect(outcomes.answered + outcomes.unknown == count)
        // Six bytes for each request.
        let bytes = try [UInt8](Data(contentsOf: URL(fileURLWithPath: file)))
        var handled: [[UInt8]: Int] = [:]
        for start in stride(from: 0, to: bytes.count, by: 6) {
            handled[Array(bytes[start..<start + 6]), default: 0] += 1
        }
        #expect(handled.allSatisfy { $0.value == 1 || $0.key[1] == 1 })
        #expect(handled.count >= outcomes.answered)
    }
}
