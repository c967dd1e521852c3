import Foundation
import Testing

@testable import Migration

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
            let script = NSAppleScript(source: "d")
            OSAtomicIncrement32(&count)

            """
        let remarks = try Migration(source).remarks
        #expect(remarks.map(\.line) == [5, 6, 7, 8])
        #expect(remarks.map(\.column) == [11, 18, 14, 1])
        #expect(
            remarks[1].text
                == "NSXPCConnection is not there on Linux: use XPCSession and XPCListener, or TypedPorts: the page about XPC says how"
        )
        #expect(remarks[3].text.hasSuffix("use Atomic of the module Synchronization"))
    }

    @Test func `a program's own types are no one else's`() throws {
        #expect(try remarks("struct NSThing {}\nlet x = NSThing()\n") == [])
        let other = ProgramNames(in: "class NSThing {}")
        #expect(try Migration("let x = NSThing()\n", in: other).remarks == [])
        #expect(try Migration("let x = NSThing()\n").remarks.count == 1)
        #expect(
            ProgramNames(in: "class A { enum B {} }\nprotocol C {}\ntypealias D = A").types == ["A", "B", "C", "D"])
    }

    @Test(arguments: ["xpc_connection_create", "NSXPCListenerEndpoint", "OSAtomicAdd64Barrier", "OSSpinLockLock"])
    func `a family of names has one advice`(_ name: String) throws {
        #expect(try remarks("import Foundation\nlet x = \(name)\n").count == 1)
    }

    @Test func `what this package has by now is not said to be missing`() throws {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../..").standardizedFileURL
        var declarations = ""
        for module in ["FoundationPorts", "CoreFoundationPorts", "CCoreFoundationPorts", "DarwinNames", "XPC"] {
            let files = FileManager.default.enumerator(atPath: folder.appendingPathComponent(module).path)
            for case let name as String in try #require(files) where name.hasSuffix(".swift") || name.hasSuffix(".h") {
                let path = folder.appendingPathComponent(module).appendingPathComponent(name)
                for line in try String(contentsOf: path, encoding: .utf8).split(separator: "\n") {
                    let isDeclared = ["public ", "open ", "CF_EXPORT ", "extern "].contains { line.hasPrefix($0) }
                    if isDeclared { declarations += line + "\n" }
                }
            }
        }
        #expect(declarations.contains("CFNotificationCenterGetDistributedCenter("))
        for name in MissingNames.all {
            #expect(!declarations.contains(try Regex("\\b\(NSRegularExpression.escapedPattern(for: name))")), "\(name)")
        }
    }

    @Test(arguments: [
        "DistributedNotificationCenter.default()", "CFNotificationCenterGetDarwinNotifyCenter()", "mach_port_allocate",
        "CFMachPortCreate", "SocketPortNameServer()", "bootstrap_look_up", "NSDistributedNotificationCenter.default()",
        "KERN_FAILURE", "BOOTSTRAP_UNKNOWN_SERVICE", "mach_task_self_", "NSSocketPortNameServer()",
    ])
    func `names that this package has are imported`(_ name: String) throws {
        let migration = try Migration("import Foundation\n\nlet x = \(name)\n")
        #expect(migration.modules == ["FoundationPorts"])
        #expect(migration.remarks == [])
    }

    @Test func `a condition on a version that turns on what Linux refuses is left`() throws {
        let source = """
            import Foundation
            import XPC
            func listen() throws {
                if #available(macOS 26, *) { try take(.isFromSameTeam()) } else { try take(nil) }
                guard #available(macOS 13, *) else { return }
                SMAppService.mainApp.register()
                if #available(macOS 12, *) { print(1) }
            }

            """
        let left = try remarks(source)
        #expect(left.count == 3)
        #expect(left[0].hasPrefix("4:8: this holds on Linux, where no process meets isFromSameTeam: say what "))
        let silenced =
            source.replacing(
                "    SMAppService.mainApp.register()\n",
                with: "#if !os(Linux)\n    SMAppService.mainApp.register()\n#endif\n")
            + "XPCPeerRequirement.replaceSignatures(with: nil)\n"
        #expect(try remarks(silenced) == [])
        #expect(left[1].hasPrefix("5:11: this holds on Linux, where SMAppService does not work: "))
    }

    @Test func `a requirement that no process meets is left, also without a condition on a version`() throws {
        let source = "import XPC\ntry take(.isFromSameTeam())\ntry take(.isFromSameTeam())\n"
        let left = try remarks(source)
        #expect(left.count == 1)
        #expect(
            left.first?.hasPrefix("2:10: no process meets isFromSameTeam on Linux: say what stands for it ") == true)
        let replacement = "XPCPeerRequirement.replaceSignatures(with: nil)\n"
        #expect(try remarks(source + replacement) == [])
        #expect(try Migration(source, in: ProgramNames(in: replacement)).remarks == [])
        #expect(try remarks("// \(replacement)\(source)").count == 1)
    }

    @Test(arguments: [
        ("#if os(macOS)\nlet p = NSMachPort()\n#endif\n", true),
        ("#if canImport(Darwin)\nlet p = CFMessagePortCreateLocal(nil, nil, nil, nil, nil)\n#endif\n", true),
        // Linux has its own, or lacks what stands beside it.
        ("#if os(macOS)\nlet p = NSMachPort()\n#else\nlet p = 1\n#endif\n", false),
        ("#if os(macOS)\nlet p = NSMachPort()\nlet w = NSWindow()\n#endif\n", false),
        ("#if os(macOS)\nlet n = 1\n#endif\n", false),
        ("#if DEBUG\nlet p = NSMachPort()\n#endif\n", false),
        ("#if os(iOS)\nlet p = NSMachPort()\n#endif\n", false),
        ("#if os(macOS)\nlet r = task_info(mach_task_self_, 1, p, &n as mach_msg_type_number_t)\n#endif\n", false),
        ("#if !os(Linux)\ntry XPCListener(service: \"a\", requirement: .isFromSameTeam())\n#endif\n", false),
        ("#if os(macOS)\nclass XPCSession {}\n#endif\n", false),
    ])
    func `code that is left to macOS though Linux has its ports is named`(_ source: String, _ isNamed: Bool) throws {
        let left = try remarks("import Foundation\nimport FoundationPorts\n" + source)
        #expect(left.contains { $0.hasPrefix("3:1: this is left to macOS, and Linux has ") } == isNamed)
    }

    @Test func `an async main beside the main loop is left`() throws {
        func source(_ line: String) -> String {
            "import Foundation\n\n@main struct Daemon {\n    static func main() async {\n        \(line)\n    }\n}\n"
        }
        #expect(
            try remarks(source("RunLoop.main.add(timer, forMode: .common)")) == [
                "4:17: nobody runs RunLoop.main under an async main on Linux: call ThreadRunLoop.main.serveFoundation() "
                    + "first in it"
            ])
        #expect(try remarks(source("RunLoop.main.run(until: .distantFuture)")) == [])
        #expect(try remarks(source("Foundation.RunLoop.main.run()")) == [])
        #expect(try remarks(source("let c = DistributedNotificationCenter.default()")).count == 1)
        #expect(try remarks(source("ThreadRunLoop.main.serveFoundation(); use(RunLoop.main)")) == [])
        #expect(try remarks("import Foundation\nuse(RunLoop.main)\n") == [])
        #expect(try remarks(source("RunLoop.main.add(t, forMode: .common)").replacing("@main ", with: "")) == [])
    }

    @Test(arguments: ["KERN_PROC_PID", "TASK_VM_INFO", "MACH_TASK_BASIC_INFO"])
    func `names of the kernel that this package lacks get no import`(_ name: String) throws {
        #expect(try Migration("import Foundation\n\nlet x = \(name)\n").modules == [])
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
        ("x as Data?", "`as Data?` does not exist on Linux for a value of CoreFoundation: write `.data` in its place"),
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
