import Migration
import Testing

struct NameTests {
    @Test func `a name of the module Darwin is one of Foundation`() throws {
        #expect(try migrated("Darwin.exit(0)") == "Foundation.exit(0)")
    }

    @Test func `names that Linux lacks are left with advice`() throws {
        let source = """
            import Foundation
            import os
            let log = Logger(subsystem: "a", category: "b")
            let connection = NSXPCConnection(serviceName: "c")
            DistributedNotificationCenter.default().post(name: n, object: nil)
            OSAtomicIncrement32(&count)

            """
        let remarks = try Migration(source).remarks
        #expect(remarks.map(\.line) == [5, 6, 7, 8])
        #expect(remarks.map(\.column) == [11, 18, 1, 1])
        #expect(
            remarks[1].text
                == "NSXPCConnection is not there on Linux: use XPCSession and XPCListener, or TypedPorts: the page about XPC says how"
        )
        #expect(remarks[3].text.hasSuffix("use Atomic of the module Synchronization"))
    }

    @Test func `a program's own types are no one else's`() throws {
        #expect(try remarks("struct NSThing {}\nlet x = NSThing()\n") == [])
        #expect(try Migration("let x = NSThing()\n", declared: ["NSThing"]).remarks == [])
        #expect(try Migration("let x = NSThing()\n").remarks.count == 1)
        #expect(
            Migration.declaredTypes(in: "class A { enum B {} }\nprotocol C {}\ntypealias D = A") == [
                "A", "B", "C", "D",
            ])
    }

    @Test(arguments: ["xpc_connection_create", "NSXPCListenerEndpoint", "OSAtomicAdd64Barrier", "CFMachPortInvalidate"])
    func `a family of names has one advice`(_ name: String) throws {
        #expect(try remarks("import Foundation\nlet x = \(name)\n").count == 1)
    }

    @Test func `a command has no identifier`() throws {
        let left = try remarks("import Foundation\nlet name = Bundle.main.bundleIdentifier! + \".port\"\n")
        #expect(left.count == 1)
        #expect(
            left.first?.hasPrefix("2:12: Bundle.main.bundleIdentifier is not there on Linux: a command has none")
                == true)
    }

    @Test func `Logger is of the module os alone`() throws {
        #expect(try remarks("import Logging\nlet log = Logger(label: \"a\")\n") == [])
    }

    @Test(arguments: ["NSLock", "NSDictionary", "NSRange", "NSURLErrorTimedOut", "CGRect", "NSMakeRange", "NSZeroRect"])
    func `names of Foundation are there`(_ name: String) throws {
        #expect(try remarks("import Foundation\nlet x = \(name)\n") == [])
    }

    @Test(arguments: [
        ("x as! CFString", "`as! CFString` ends the program on Linux, unless CoreFoundation has made the object"),
        ("x as! CFArray", "`as! CFArray` ends the program on Linux, unless CoreFoundation has made the object"),
        ("x as CFDictionary", "`as CFDictionary` does not exist on Linux"),
        ("x as Data?", "`as Data?` does not exist on Linux for a value of CoreFoundation: write `?.data` in its place"),
    ])
    func `casts without a counterpart are left`(_ cast: String, _ beginning: String) throws {
        let remarks = try Migration("import FoundationPorts\nlet y = \(cast)\n").remarks
        #expect(remarks.count == 1)
        #expect(remarks.first?.line == 2)
        #expect(remarks.first?.text.hasPrefix(beginning) == true)
    }

    @Test func `a text that is no Swift is an error with its place`() throws {
        let failure = #expect(throws: ParseFailure.self) { try Migration("func f( {\n}\n") }
        #expect(failure?.errors.first?.line == 1)
        #expect(try Migration("").text == "")
        #expect(try Migration("// nothing\n").text == "// nothing\n")
    }
}
