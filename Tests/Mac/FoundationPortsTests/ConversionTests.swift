import Foundation
import FoundationPorts
import Ports
import RunLoops
import Testing

struct ConversionTests {
    @Test(arguments: ["", "com.example", "péage 🛣"])
    func `strings and data are the same on both sides`(_ text: String) {
        #expect(String(text.cfString) == text)
        #expect(text.cfString.string == text)
        #expect(NSString(string: text).cfString.string == text)
        #expect(CFStringGetLength(text.cfString) == text.utf16.count)
        let data = Data(text.utf8)
        #expect(Data(data.cfData) == data)
        #expect(data.cfData.data == data)
        #expect(NSData(data: data).cfData.data == data)
        #expect([UInt8](data.cfData) == Array(text.utf8))
    }

    @Test func `an optional value has an optional counterpart`() {
        let (text, data): (String?, Data?) = ("péage", Data([1, 2]))
        #expect(text.cfString?.string == text)
        #expect(data.cfData?.data == data)
        let (noText, noData): (String?, Data?) = (nil, nil)
        #expect(noText.cfString == nil)
        #expect(noData.cfData == nil)
    }

    @Test func `what a function returns is converted without an unwrapping of its own`() throws {
        let port = try #require(
            CFMessagePortCreateLocal(nil, "com.example.\(UUID().uuidString)" as CFString, nil, nil, nil))
        defer { CFMessagePortInvalidate(port) }
        let name = CFMessagePortGetName(port).string
        #expect(name.hasPrefix("com.example."))
        #expect(CFDataCreate(nil, [7], 1).data == Data([7]))
    }

    @Test func `the localized description of an error is its sentence`() {
        let errors: [any Error & CustomStringConvertible] = [
            PortError.nameNotFound("a", directory: "/b"), RunLoopError.notAChild(1),
            RequestFailure("no such image"),
            CheckInError.timedOut(worker: "it"),
        ]
        for error in errors { #expect(error.localizedDescription == error.description) }
    }

    @Test func `slices keep their bytes`() {
        #expect(Data([1, 2, 3, 4])[1..<3].cfData.data == Data([2, 3]))
    }
}
