import CRunLoopShims
import Glibc
import RunLoops
import Synchronization

/// A terminal whose window a command fills. Keys come at once, and are not shown; the exit restores the terminal.
final class Terminal: Sendable {
    /// A wish of the user.
    enum Event { case end, redraw }

    private static let former = Mutex<termios?>(nil)
    private let readsKeys: Bool

    /// Nil when the standard output is no terminal.
    init?() {
        guard isatty(STDOUT_FILENO) == 1 else { return nil }
        // A process in the background of its terminal is stopped when it reads.
        let foreground = tcgetpgrp(STDIN_FILENO)
        readsKeys = isatty(STDIN_FILENO) == 1 && (foreground < 0 || foreground == getpgrp())
        begin()
        atexit { Terminal.restore() }
    }

    /// Hides the cursor, makes the terminal cut long lines, and clears the screen.
    private func begin() {
        write("\u{1B}[?25l\u{1B}[?7l\u{1B}[2J".utf8)
        var settings = termios()
        guard readsKeys, tcgetattr(STDIN_FILENO, &settings) == 0 else { return }
        let found = settings
        Self.former.withLock { $0 = found }
        settings.c_lflag &= ~tcflag_t(ICANON | ECHO)
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    private static func restore() {
        write("\u{1B}[?7h\u{1B}[?25h".utf8)
        guard var settings = former.withLock({ $0 }) else { return }
        tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }

    /// Calls `tell` on a loop for keys and for a change of the window's size.
    func watch(in loop: ThreadRunLoop, _ tell: @escaping @Sendable (Event) -> Void) throws {
        try loop.add(.signal(SIGWINCH) { _ in tell(.redraw) })
        try loop.add(
            .signal(SIGTSTP) { [self] _ in
                Self.restore()
                kill(getpid(), SIGSTOP)
                // The process continues here after SIGCONT.
                begin()
                tell(.redraw)
            })
        guard readsKeys else { return }
        try loop.add(
            .descriptor(STDIN_FILENO) { source, _ in
                var keys = [UInt8](repeating: 0, count: 64)
                let count = read(STDIN_FILENO, &keys, keys.count)
                if count <= 0 { return source.invalidate() }
                // Without line editing, ^D is a key, not the end of the input.
                if keys[..<count].contains(where: { "qQ\u{04}".utf8.contains($0) }) { tell(.end) }
            })
    }

    /// Fills the window with as many rows as it has room for.
    func show(_ table: Table) {
        let (rows, columns) = terminalSize ?? (24, 80)
        let lines = table.lines(toWidth: columns, isStyled: Style.isUsed)
        var shown = Array(lines.prefix(rows))
        if lines.count > rows, rows > 1 { shown[rows - 1] = "… \(lines.count - rows + 1) more" }
        let text = shown.map { $0 + "\u{1B}[K" }.joined(separator: "\r\n")
        write(("\u{1B}[H" + text + "\u{1B}[J").utf8)
    }

    /// Leaves the last table on the screen. Later output appears below it.
    func leave() { write("\r\n".utf8) }
}

/// The size of the terminal that is the standard output; nil for another output.
private var terminalSize: (rows: Int, columns: Int)? {
    var size = winsize()
    guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_row > 0, size.ws_col > 0 else { return nil }
    return (Int(size.ws_row), Int(size.ws_col))
}

/// The columns of the terminal that is the standard output; nil for another output, which gets all text.
var terminalWidth: Int? { terminalSize?.columns }
