import Migration
import Testing

struct ImportTests {
    private static let port = "let port = NSMachPort()\n"

    @Test(arguments: [
        ("import Foundation\n\n" + port, "import Foundation\nimport FoundationPorts\n\n" + port),
        ("import CoreFoundation\n\n" + port, "import CoreFoundation\nimport FoundationPorts\n\n" + port),
        (
            "import Foundation\nimport XPC\n\n" + port,
            "import Foundation\nimport FoundationPorts\nimport XPC\n\n" + port
        ),
        (
            "import XPC\nimport Foundation\n\n" + port,
            "import XPC\nimport Foundation\nimport FoundationPorts\n\n" + port
        ),
        ("import Foundation  // all\n" + port, "import Foundation  // all\nimport FoundationPorts\n" + port),
        ("import Cocoa\n" + port, "import Foundation\nimport FoundationPorts\n" + port),
        ("import AppKit\nimport Foundation\n" + port, "import Foundation\nimport FoundationPorts\n" + port),
        ("import Foundation\nimport AppKit\n" + port, "import Foundation\nimport FoundationPorts\n" + port),
        ("import Foundation\nimport FoundationPorts\n" + port, "import Foundation\nimport FoundationPorts\n" + port),
        (port, "import Foundation\nimport FoundationPorts\n\n" + port),
        (
            "import AppKit\nimport Foundation\nautoreleasepool {}\n",
            "import DarwinNames\nimport Foundation\nautoreleasepool {}\n"
        ),
        (
            "import AppKit\nimport Cocoa\nautoreleasepool {}\n",
            "import DarwinNames\nimport Foundation\nautoreleasepool {}\n"
        ),
        (
            "import AppKit\n#if DEBUG\nimport Foundation\n#endif\nautoreleasepool {}\n",
            "import DarwinNames\n\n#if DEBUG\nimport Foundation\n#endif\nautoreleasepool {}\n"
        ),
        (
            "// About the file.\n\n/// About the port.\n" + port,
            "// About the file.\n\nimport Foundation\nimport FoundationPorts\n\n/// About the port.\n" + port
        ),
        ("import Foundation\nautoreleasepool {}\n", "import DarwinNames\nimport Foundation\nautoreleasepool {}\n"),
        ("import Foundation\nlet x: SInt32 = 1\n", "import DarwinNames\nimport Foundation\nlet x: SInt32 = 1\n"),
        ("import Foundation\nlet d = Data()\n", "import Foundation\nlet d = Data()\n"),
        (
            "import Foundation\r\n\r\nlet p = NSMachPort()\r\n",
            "import Foundation\r\nimport FoundationPorts\r\n\r\nlet p = NSMachPort()\r\n"
        ),
    ])
    func `a file gets the imports that it needs`(_ source: String, _ expected: String) throws {
        let migration = try Migration(source)
        #expect(migration.text == expected)
        #expect(try Migration(migration.text).text == expected)
        #expect(migration.remarks == [])
    }

    @Test(arguments: [
        ("import Darwin\n", "#if canImport(Darwin)\nimport Darwin\n#else\nimport Glibc\n#endif\n"),
        ("import Foundation\nimport Darwin\n", "import Foundation\n#if canImport(Darwin)\nimport Darwin\n#endif\n"),
        ("import Foundation\nimport simd\n", "import Foundation\n#if canImport(simd)\nimport simd\n#endif\n"),
        (
            "@preconcurrency import Darwin.C\n",
            "#if canImport(Darwin)\n@preconcurrency import Darwin.C\n#else\nimport Glibc\n#endif\n"
        ),
    ])
    func `an import of a module that Linux lacks gets a condition`(_ source: String, _ expected: String) throws {
        let migration = try Migration(source)
        #expect(migration.text == expected)
        #expect(migration.remarks == [])
        #expect(try Migration(expected).text == expected)
    }

    @Test func `AppKit stays for who uses it, and what uses it is left`() throws {
        let migration = try Migration(
            "import Cocoa\n\nlet app = NSApplication.shared\nlet window: NSWindow\nlet more: NSWindow\n")
        #expect(
            migration.text
                == "#if canImport(Cocoa)\nimport Cocoa\n#endif\nimport Foundation\n\nlet app = NSApplication.shared\n"
                + "let window: NSWindow\nlet more: NSWindow\n")
        #expect(migration.remarks.map(\.line) == [6, 7])
        #expect(migration.remarks.last?.text.hasPrefix("NSWindow (2 times) is not there on Linux") == true)
        #expect(try Migration(migration.text).text == migration.text)
    }

    @Test(arguments: [
        ("import AppKit\nimport OSAKit\n", "OSAKit"), ("import CoreBluetooth\n", "CoreBluetooth"),
        ("import Foundation\nimport Network\n", "Network"), ("import CryptoKit\n", "CryptoKit"),
    ])
    func `frameworks of macOS are named`(_ source: String, _ name: String) throws {
        let left = try Migration(source).remarks
        #expect(left.map(\.text).contains { $0.hasPrefix("\(name) is not there on Linux: ") })
    }

    @Test func `a module that may be one of Apple's is left, and so is one of ours or of a package`() throws {
        #expect(
            try remarks("import Foundation\nimport ParkingKit\nimport CoreFoundationPorts\nimport NIOCore\n") == [
                "2:1: if ParkingKit is a module of Apple's, it is not there on Linux: put the import, and what uses it, "
                    + "between #if canImport(ParkingKit) and #endif"
            ])
    }

    @Test func `UIKit stays for who uses it`() throws {
        let source = "import UIKit\n\nlet view = UIView()\n"
        let migration = try Migration(source)
        #expect(
            migration.text == "#if canImport(UIKit)\nimport UIKit\n#endif\nimport Foundation\n\nlet view = UIView()\n")
        #expect(migration.remarks.map(\.text).contains { $0.hasPrefix("UIView is not there on Linux") })
        #expect(try Migration("import UIKit\n\nlet data = Data()\n").text == "import Foundation\n\nlet data = Data()\n")
    }

    @Test func `XPC, which Foundation exports on macOS, is imported`() throws {
        #expect(
            try Migration("import Foundation\n\nlet s = try XPCSession(machService: name)\n").text
                == "import Foundation\nimport XPC\n\nlet s = try XPCSession(machService: name)\n")
    }

    @Test func `other modules are left`() throws {
        #expect(
            try remarks("import Foundation\nimport IOKit\n") == [
                "3:1: IOKit is not there on Linux: put what uses it between #if canImport(IOKit) and #endif"
            ])
    }

    @Test func `imports that share a line stay`() throws {
        let migration = try Migration("import Foundation; import Darwin\nlet p = NSMachPort()\n")
        #expect(
            migration.text == "import FoundationPorts\n\nimport Foundation; import Darwin\nlet p = NSMachPort()\n")
        #expect(
            migration.remarks.map(\.text) == ["Darwin is not there on Linux: write the import on a line of its own"])
    }

    @Test func `a mark of the byte order and a first line for the shell stay in front`() throws {
        #expect(
            try Migration("\u{FEFF}import Foundation\nlet p = NSMachPort()\n").text
                == "\u{FEFF}import Foundation\nimport FoundationPorts\nlet p = NSMachPort()\n")
        #expect(
            try Migration("#!/usr/bin/swift\nlet p = NSMachPort()\n").text
                == "#!/usr/bin/swift\nimport Foundation\nimport FoundationPorts\n\nlet p = NSMachPort()\n")
    }

    @Test func `for macOS, too, the new imports have a condition`() throws {
        let migration = try Migration("import Foundation\nlet p = NSMachPort()\n", staysOnMacOS: true)
        #expect(
            migration.text
                == "import Foundation\n#if canImport(FoundationPorts)\nimport FoundationPorts\n#endif\nlet p = NSMachPort()\n"
        )
        #expect(try Migration(migration.text, staysOnMacOS: true).text == migration.text)
        #expect(migration.modules == ["FoundationPorts"])
    }

    @Test(arguments: [
        "#if os(macOS)\nlet s = n as CFString\n#endif\n", "#if canImport(AppKit)\n@objc class C {}\n#endif\n",
        "#if !os(Linux)\nimport Cocoa\n#endif\n", "#if os(Linux)\n#else\nlet s = n as CFString\n#endif\n",
        "#if os(macOS) || targetEnvironment(simulator)\nlet s = n as CFString\n#endif\n",
        "#if DEBUG && canImport(Darwin)\nlet s = n as CFString\n#endif\n",
    ])
    func `what is not built on Linux stays`(_ source: String) throws {
        let migration = try Migration(source)
        #expect(migration.text == source)
        #expect(migration.remarks == [])
    }

    @Test(arguments: [
        "#if DEBUG\nlet s = n as CFString\n#endif\n", "#if os(Linux)\nlet s = n as CFString\n#endif\n",
        "#if os(macOS)\n#else\nlet s = n as CFString\n#endif\n", "#if !os(macOS)\nlet s = n as CFString\n#endif\n",
        "#if os(macOS) || DEBUG\nlet s = n as CFString\n#endif\n",
    ])
    func `what may be built on Linux changes`(_ source: String) throws {
        #expect(try Migration(source).text.contains("n.cfString"))
    }
}
