import CoreFoundationPorts
import Testing

@Suite struct ExportTests {
    @Test func exportsCoreFoundation() {
        #expect(CFGetTypeID(CFRunLoopGetCurrent()) == CFRunLoopGetTypeID())
    }
}
