import Ports
import Testing

@testable import XPC

/// The messages that wait at one end of a session.
struct OutboxTests {
    private func entry(_ size: Int, request: UInt64? = nil) -> Outbox.Entry {
        Outbox.Entry(message: MachPort.Message(bytes: [UInt8](repeating: 0, count: size)), request: request)
    }

    @Test func `entries leave in the order in which they came`() {
        var outbox = Outbox()
        for number in 0..<5000 {
            let isAdded = outbox.append(entry(1, request: UInt64(number)))
            #expect(isAdded)
            if number % 3 == 2 { _ = outbox.takeFirst() }
        }
        #expect(outbox.requests == Array(UInt64(1666)..<5000))
        var numbers: [UInt64] = []
        while let entry = outbox.takeFirst() { if let number = entry.request { numbers.append(number) } }
        #expect(numbers == Array(UInt64(1666)..<5000))
        #expect(outbox.isEmpty)
    }

    @Test func `bytes and messages are bounded, and a single message may have any size`() {
        var outbox = Outbox()
        let (isLargeAdded, isNextAdded) = (outbox.append(entry(Outbox.limits.bytes + 1)), outbox.append(entry(0)))
        #expect(isLargeAdded && !isNextAdded)
        _ = outbox.takeFirst()
        var count = 0
        while outbox.append(entry(0)) { count += 1 }
        #expect(count == Outbox.limits.messages)
        _ = outbox.takeFirst()
        let isAdded = outbox.append(entry(1000))
        #expect(isAdded)
    }
}
