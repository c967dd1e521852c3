import Foundation
import FoundationPorts
import TestSupport
import Testing

/// The main loop calls observers, and the tests' main thread runs none: an operation queue and a run by the test stand in
/// for it.
@MainActor @Suite(.serialized) struct DistributedNotificationTests {
    private let name = NSNotification.Name("com.example.\(UInt64.random(in: 0 ... .max))")
    private let center = DistributedNotificationCenter.default()

    private struct Received: Equatable {
        var object: String?
        var text: String?
        var number: Int?
    }

    private func received(by count: Int = 1, _ notes: Shared<[Received]>) -> [Received] {
        for _ in 0..<1000 where notes.withLock({ $0.count }) < count {
            RunLoop.main.run(until: Date(timeIntervalSinceNow: 0.01))
        }
        return notes.withLock { $0 }
    }

    private func observe(
        _ object: String? = nil, _ behavior: DistributedNotificationCenter.SuspensionBehavior = .coalesce,
        queue: OperationQueue? = nil
    ) -> (notes: Shared<[Received]>, token: any NSObjectProtocol) {
        let notes = Shared<[Received]>([])
        let token = center.addObserver(forName: name, object: object, suspensionBehavior: behavior, queue: queue) {
            note in
            notes.withLock {
                $0.append(
                    Received(
                        object: note.object as? String, text: note.userInfo?["text"] as? String,
                        number: note.userInfo?["number"] as? Int))
            }
        }
        return (notes, token)
    }

    @Test func `a notification has its object and its user info`() {
        let (notes, token) = observe()
        let (others, other) = observe("another")
        center.postNotificationName(
            name, object: "the object", userInfo: ["text": "é", "number": 7], deliverImmediately: true)
        #expect(received(notes) == [Received(object: "the object", text: "é", number: 7)])
        center.post(name: name, object: nil)
        #expect(received(by: 2, notes).last == Received())
        center.removeObserver(token)
        center.removeObserver(other)
        center.post(name: name, object: "another")
        RunLoop.main.run(until: Date(timeIntervalSinceNow: 0.05))
        #expect(notes.withLock { $0.count } == 2)
        #expect(others.withLock { $0 } == [])
    }

    @Test func `an operation queue calls the block`() {
        let (notes, token) = observe(queue: OperationQueue())
        center.post(Notification(name: name, object: "x", userInfo: ["number": 1]))
        #expect(received(notes) == [Received(object: "x", number: 1)])
        center.removeObserver(token)
    }

    @Test func `user info that is no property list is not posted`() {
        let (notes, token) = observe()
        center.postNotificationName(name, object: nil, userInfo: ["text": NSObject()], options: .deliverImmediately)
        center.postNotificationName(name, object: nil, userInfo: ["text": "list"], options: .deliverImmediately)
        #expect(received(notes) == [Received(text: "list")])
        center.removeObserver(token)
    }

    @Test func `a suspended centre coalesces`() {
        let (notes, token) = observe()
        let (held, holding) = observe(nil, .hold)
        center.suspended = true
        #expect(center.suspended)
        for number in 1...3 { center.postNotificationName(name, object: nil, userInfo: ["number": number]) }
        RunLoop.main.run(until: Date(timeIntervalSinceNow: 0.05))
        #expect(notes.withLock { $0 } == [])
        center.suspended = false
        #expect(received(by: 3, held).map(\.number) == [1, 2, 3])
        #expect(received(notes) == [Received(number: 3)])
        center.removeObserver(token)
        center.removeObserver(holding)
    }
}
