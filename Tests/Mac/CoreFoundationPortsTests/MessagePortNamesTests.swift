import CoreFoundation
import OwnThread
import Testing

@testable import CoreFoundationPorts

@Suite(.ownThread) struct MessagePortNamesTests {
    private static let silent: CFMessagePortCallBack = { _, _, _, _ in nil }

    @Test func `a name whose port another thread is ending goes to the next port`() throws {
        let names = MessagePortNames()
        let former = try #require(CFMessagePortCreateLocal(nil, nil, Self.silent, nil, nil))
        let next = try #require(CFMessagePortCreateLocal(nil, nil, Self.silent, nil, nil))
        #expect(names.insert("name", former.body) == nil)
        #expect(names.insert("name", next.body) === former)
        // The other thread has not come to the name yet.
        former.body.state.withLock { $0.isValid = false }
        #expect(names.insert("name", next.body) == nil)
        #expect(names.existing("name") === next)
        // And then it comes.
        names.remove(CFStringCreateWithCString(nil, "name", CFStringBuiltInEncodings.UTF8.rawValue), former.body)
        #expect(names.existing("name") === next)
        former.body.state.withLock { $0.isValid = true }
        for port in [former, next] { CFMessagePortInvalidate(port) }
    }
}
