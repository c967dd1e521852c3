import Dispatch
import Glibc
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

@testable import XPC

/// Messages without a `Codable` type.
@Suite(.ownThread) struct DictionaryTests {
    private let names = Names()

    private func sample() -> XPCDictionary {
        var (inner, array, dictionary) = (XPCDictionary(), XPCArray(), XPCDictionary())
        inner["text"] = "inside"
        array[0] = "first"
        array[1] = -2
        array[2] = 2.5
        array[3] = inner
        dictionary["string"] = "text"
        dictionary["yes"] = true
        dictionary["negative"] = -5
        dictionary["large"] = UInt64.max
        dictionary["floating"] = 0.25
        dictionary["bytes"] = [1, 2, 3] as [UInt8]
        dictionary["array"] = array
        dictionary["dictionary"] = inner
        return dictionary
    }

    @Test func `values keep their types, and numbers convert when they fit`() {
        var dictionary = sample()
        #expect(dictionary.count == 8)
        #expect(dictionary["string"] == "text")
        #expect(dictionary["string"] as Bool? == nil)
        #expect(dictionary["yes"] == true)
        #expect(dictionary["negative"] == -5)
        #expect(dictionary["negative"] as UInt8? == nil)
        #expect(dictionary["large"] == UInt64.max)
        #expect(dictionary["large"] as Int64? == nil)
        #expect(dictionary["floating"] == 0.25)
        #expect(dictionary["floating", as: Int.self] == nil)
        #expect(dictionary["negative", as: Double.self] == -5)
        #expect(dictionary["missing", default: "none"] == "none")
        #expect(dictionary["missing", as: Int.self, default: 7] == 7)
        let array: XPCArray? = dictionary["array"]
        #expect(array?.count == 4)
        #expect(array?[0] == "first")
        #expect(array?[1] == -2)
        #expect(array?[3, as: XPCDictionary.self]?["text"] == "inside")
        #expect(array?[9] as String? == nil)
        dictionary["string"] = String?.none
        #expect(dictionary.count == 7)
        dictionary.removeValue(forKey: "yes")
        #expect(!dictionary.keys.contains("yes"))
        #expect(sample() == sample())
    }

    @Test func `a literal makes a dictionary`() {
        var inner = XPCArray()
        inner[0] = "first"
        let dictionary: XPCDictionary = [
            "name": "John", "age": -30, "isActive": true, "score": 95.5, "bytes": XPCLiteralValue([1, 2] as [UInt8]),
            "large": XPCLiteralValue(UInt64.max), "inner": XPCLiteralValue(["a": 1] as XPCDictionary),
            "array": XPCLiteralValue(inner),
        ]
        #expect(dictionary["name"] == "John")
        #expect(dictionary["age"] == -30)
        #expect(dictionary["isActive"] == true)
        #expect(dictionary["score"] == 95.5)
        #expect(dictionary["bytes"] == [1, 2] as [UInt8])
        #expect(dictionary["large"] == UInt64.max)
        #expect(dictionary["inner", as: XPCDictionary.self]?["a"] == 1)
        #expect(dictionary["array", as: XPCArray.self]?[0] == "first")
        #expect(
            "\(dictionary)" == """
                ["age": -30, "array": ["first"], "bytes": 2 bytes, "inner": ["a": 1], "isActive": true, \
                "large": 18446744073709551615, "name": "John", "score": 95.5]
                """)
        #expect("\([:] as XPCDictionary)" == "[:]")
    }

    @Test func `values have forms with types and defaults`() {
        let listener = XPCListener { $0.reject(reason: "nobody comes") }
        defer { listener.cancel() }
        let uuid: UUIDBytes = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)
        var (dictionary, array) = (XPCDictionary(), XPCArray())
        dictionary["uuid"] = uuid
        dictionary["endpoint"] = listener.endpoint
        array[0] = uuid
        array[1] = listener.endpoint
        let none: UUIDBytes = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        for found in [
            dictionary["uuid", as: UUIDBytes.self], dictionary["uuid", default: none],
            array[0, as: UUIDBytes.self], array[0, default: none],
        ] {
            #expect(found.map { $0.0 == 1 && $0.15 == 16 } == true)
        }
        #expect(dictionary["endpoint", default: none].15 == 0)
        #expect(array[1, default: none].15 == 0)
        #expect(
            "\(dictionary["uuid", as: UUIDBytes.self].map { XPCValue(uuid: $0) } ?? .bool(false))".hasPrefix(
                "UUID 0102"))
        #expect(dictionary["endpoint", as: XPCEndpoint.self] == listener.endpoint)
        #expect(array[1, as: XPCEndpoint.self] == listener.endpoint)
        #expect(dictionary["none", default: listener.endpoint] == listener.endpoint)
        #expect(array[7, default: listener.endpoint] == listener.endpoint)
        #expect(dictionary["none", default: array] == array)
        #expect(array[7, default: array] == array)
    }

    @Test func `values are copied into another dictionary or array`() {
        var (target, array) = (["string": "old", "other": 1] as XPCDictionary, XPCArray())
        sample().copy(into: &target)
        #expect(target["string"] == "text")
        #expect(target["other"] == 1)
        array[0] = "zero"
        sample()["array", as: XPCArray.self]?.copy(into: &array)
        #expect(array.count == 5)
        #expect(array[1] == "first")
    }

    @Test func `a dictionary carries a UUID, and memory by its descriptor`() throws {
        let listener = try names.listener { request in
            request.accept { (message: XPCDictionary) -> XPCDictionary? in
                var reply = message
                if let descriptor: MessageDescriptor = message["memory"], let memory = try? SharedMemory(descriptor) {
                    reply["sum"] = memory.withBytes { bytes in bytes.withUnsafeBytes { $0.reduce(0) { $0 + Int($1) } } }
                }
                reply["memory"] = MessageDescriptor?.none
                reply["isUser"] = message.senderSatisfies(.user(geteuid()))
                return reply
            }
        }
        let session = try names.session()
        var message = XPCDictionary()
        message["uuid"] = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16) as UUIDBytes
        message["memory"] = try SharedMemory(copying: ([1, 2, 3] as [UInt8]).span.bytes).makeDescriptor()
        let reply = try session.sendSync(message: message)
        #expect(reply["sum"] == 6)
        #expect(reply["isUser"] == true)
        #expect(reply["uuid", as: UUIDBytes.self]?.15 == 16)
        #expect(!message.senderSatisfies(.user(geteuid())))
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `dictionaries travel in all forms of sending, and come back equal`() throws {
        let arrived = Shared<XPCDictionary?>(nil)
        let listener = try names.listener { request in
            request.accept { (message: XPCDictionary) -> XPCDictionary? in
                arrived.withLock { $0 = message }
                return message
            }
        }
        let session = try names.session()
        #expect(try session.sendSync(message: sample()) == sample())
        let (reply, done) = (Shared<XPCDictionary?>(nil), Latch())
        session.send(message: sample()) { result in
            reply.withLock { $0 = try? result.get() }
            done.open()
        }
        #expect(done.wait(until: .patience))
        #expect(reply.withLock { $0 } == sample())
        var last = XPCDictionary()
        last["last"] = true
        try session.send(message: last)
        #expect(waitUntil { arrived.withLock { $0 } == last })
        session.cancel(reason: "done")
        let failed = Latch()
        session.send(message: last) { result in if case .failure = result { failed.open() } }
        #expect(failed.wait(until: .patience))
        listener.cancel()
    }

    @Test func `a received dictionary replies later`() throws {
        let listener = try names.listener { request in
            request.accept { (message: XPCDictionary) -> XPCDictionary? in
                DispatchQueue.global().async { message.reply(message) }
                return nil
            }
        }
        let session = try names.session()
        #expect(try session.sendSync(message: sample()) == sample())
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a typed message is no dictionary`() throws {
        let listener = try names.listener { request in
            request.accept { (message: XPCDictionary) -> XPCDictionary? in message }
        }
        let session = try names.session()
        #expect(throws: XPCRichError.self) { let _: Answer = try session.sendSync(Question(number: 1)) }
        session.cancel(reason: "done")
        listener.cancel()
    }

    @Test func `a dictionary carries a descriptor`() throws {
        struct Handler: XPCPeerHandler {
            func handleIncomingRequest(_ message: XPCDictionary) -> XPCDictionary? {
                guard let descriptor: MessageDescriptor = message["output"] else { return nil }
                let number = (try? descriptor.number) ?? -1
                var reply = XPCDictionary()
                reply["written"] = write(number, "hello", 5)
                return reply
            }
        }
        let listener = try names.listener { request in request.accept { _ in Handler() } }
        let session = try names.session()
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        var message = XPCDictionary()
        message["output"] = MessageDescriptor(owning: ends[1])
        let reply = try session.sendSync(message: message)
        #expect(reply["written"] == 5)
        var buffer = [UInt8](repeating: 0, count: 5)
        #expect(read(ends[0], &buffer, 5) == 5)
        #expect(buffer == Array("hello".utf8))
        session.cancel(reason: "done")
        listener.cancel()
    }
}
