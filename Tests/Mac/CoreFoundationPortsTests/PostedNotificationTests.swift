@preconcurrency import CoreFoundation
import Testing

@testable import CoreFoundationPorts

struct PostedNotificationTests {
    private func make(_ object: CFString?, _ userInfo: CFDictionary?, isImmediate: Bool = false) -> PostedNotification {
        PostedNotification(
            "com.example.é" as CFString, object.map { UnsafeRawPointer(Unmanaged.passUnretained($0).toOpaque()) },
            userInfo, isImmediate: isImmediate, keeping: object)
    }

    private func userInfo() -> CFDictionary? {
        let made = CFDictionaryCreateMutable(nil, 0, [kCFTypeDictionaryKeyCallBacks], [kCFTypeDictionaryValueCallBacks])
        let (key, value) = ("key" as CFString, [1, 2].cfData)
        withExtendedLifetime((key, value)) {
            CFDictionarySetValue(
                made, Unmanaged.passUnretained(key).toOpaque(), Unmanaged.passUnretained(value).toOpaque())
        }
        return made
    }

    @Test(arguments: [true, false]) func `a notification is the same in another process`(_ isFull: Bool) throws {
        let sent = make(isFull ? "the object" as CFString : nil, isFull ? userInfo() : nil, isImmediate: isFull)
        let bytes = try #require(sent.bytes)
        let received = try #require(PostedNotification(bytes))
        #expect(received.name == sent.name)
        #expect(received.objectText == (isFull ? "the object" : nil))
        #expect(received.isImmediate == isFull)
        #expect((received.userInfo == nil) == !isFull)
        if let (info, other) = received.userInfo.flatMap({ info in sent.userInfo.map { (info, $0) } }) {
            #expect(CFEqual(info, other))
        }
    }

    @Test func `bytes that end too early, or go on, are no notification`() throws {
        let bytes = try #require(make("object" as CFString, userInfo()).bytes)
        for count in 0..<bytes.count { #expect(PostedNotification(Array(bytes.prefix(count))) == nil) }
        #expect(PostedNotification(bytes + [0]) == nil)
        for index in bytes.indices {
            var changed = bytes
            changed[index] ^= 0xff
            _ = PostedNotification(changed)
        }
        #expect(PostedNotification([0, 0xfe, 0xff, 0xff, 0xff]) == nil)
        // A list that is no dictionary.
        let list = CFPropertyListCreateData(nil, "text" as CFString, .binaryFormat_v1_0, 0, nil)?.takeRetainedValue()
        let text = [UInt8](try #require(list))
        let start: [UInt8] = [0, 1, 0, 0, 0, 65, 255, 255, 255, 255]
        #expect(PostedNotification(start + [UInt8(text.count), 0, 0, 0] + text) == nil)
    }
}
