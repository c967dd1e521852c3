import Foundation
import Glibc
import OwnThread
import TestSupport
import Testing

/// What a person sees of `top`, at a terminal of a test's own.
@Suite(.ownThread) struct TopTests {
    private let registry = Registry()

    private final class Screen {
        private let master: Int32
        let path: String
        private(set) var text = ""

        init(rows: UInt16, columns: UInt16) throws {
            master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)
            // TIOCSPTLCK and TIOCGPTN: Swift has neither them nor `posix_openpt`.
            var (isLocked, number) = (Int32(0), Int32(0))
            try #require(ioctl(master, 0x4004_5431, &isLocked) == 0)
            try #require(ioctl(master, 0x8004_5430, &number) == 0)
            path = "/dev/pts/\(number)"
            resize(rows: rows, columns: columns)
        }

        deinit { close(master) }

        func resize(rows: UInt16, columns: UInt16) {
            var size = winsize(ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0)
            #expect(ioctl(master, UInt(TIOCSWINSZ), &size) == 0)
        }

        func type(_ text: String) { #expect(write(master, text, text.utf8.count) == text.utf8.count) }

        /// The settings that a program changes to get keys at once.
        var flags: tcflag_t {
            var settings = termios()
            #expect(tcgetattr(master, &settings) == 0)
            return settings.c_lflag
        }

        /// Reads until the condition holds for what stands on the screen.
        func waits(_ condition: (_ table: [Substring]) -> Bool) -> Bool {
            waitUntil {
                var buffer = [UInt8](repeating: 0, count: 65536)
                let count = read(master, &buffer, buffer.count)
                if count > 0 { text += String(decoding: buffer[..<count], as: UTF8.self) }
                return condition(table)
            }
        }

        /// The last table that is complete.
        private var table: [Substring] {
            let end = text.range(of: "\u{1B}[J", options: .backwards)?.lowerBound ?? text.startIndex
            let start = text[..<end].range(of: "\u{1B}[H", options: .backwards)?.upperBound ?? end
            return text[start..<end].split(separator: "\r\n").map { $0.split(separator: "\u{1B}[K")[0] }
        }
    }

    private func start(on screen: Screen) -> Child {
        Child(
            ["/bin/sh", "-c", #"exec "$0" top --interval 100 <"$1" >"$1""#, Child.folder + "/portctl", screen.path],
            environment: ["PORTS_DIRECTORY": registry.path, "LC_ALL": "C"])
    }

    @Test func `the table fits the window, also another one, and a key ends it`() throws {
        let servers = try ["a", "b", "c", "d"].map { try registry.serve($0) }
        let screen = try Screen(rows: 4, columns: 20)
        // Open for as long as the test looks: what is set lasts as long as somebody has the terminal.
        let terminal = open(screen.path, O_RDWR | O_NOCTTY)
        defer { close(terminal) }
        let before = screen.flags
        let top = start(on: screen)
        #expect(screen.waits { $0.count == 4 && $0[3] == "… 2 more" && $0.allSatisfy { $0.count <= 20 } })
        #expect(screen.flags & tcflag_t(ICANON | ECHO) == 0)

        // Long before the next table is due.
        screen.resize(rows: 10, columns: 200)
        top.signal(SIGWINCH)
        #expect(screen.waits { $0.count == 5 && $0[1].contains("PortsTestHelper") })
        screen.type("xq")
        #expect(top.wait() == 0)
        #expect(screen.waits { _ in screen.text.hasSuffix("\r\n\u{1B}[?7h\u{1B}[?25h") })
        #expect(screen.flags == before)
        withExtendedLifetime(servers) {}
    }

    @Test func `a signal ends it as a key does`() throws {
        let screen = try Screen(rows: 10, columns: 80)
        let terminal = open(screen.path, O_RDWR | O_NOCTTY)
        defer { close(terminal) }
        let before = screen.flags
        let top = start(on: screen)
        #expect(screen.waits { $0.count == 1 && $0[0].hasPrefix("NAME") })
        top.signal(SIGTERM)
        #expect(top.wait() == 0)
        #expect(screen.flags == before)
    }

    @Test func `the version is that of the package`() {
        let outcome = registry.portctl("--version")
        #expect(outcome.status == 0)
        #expect(outcome.output.wholeMatch(of: /0\.\d+\.\d+\n/) != nil)
    }
}
