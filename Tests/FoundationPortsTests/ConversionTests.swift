import Foundation
import FoundationPorts
import Testing

struct ConversionTests {
    @Test(arguments: ["", "com.example", "péage 🛣"])
    func `strings and data are the same on both sides`(_ text: String) {
        #expect(String(text.cfString) == text)
        #expect(CFStringGetLength(text.cfString) == text.utf16.count)
        let data = Data(text.utf8)
        #expect(Data(data.cfData) == data)
        #expect([UInt8](data.cfData) == Array(text.utf8))
    }
}
