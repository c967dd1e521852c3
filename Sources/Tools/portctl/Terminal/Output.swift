import Glibc

func write(_ bytes: some Collection<UInt8>, to descriptor: Int32 = STDOUT_FILENO) {
    var rest = Array(bytes)[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        if count < 0, descriptor != STDERR_FILENO { failOutput(errno) }
        guard count > 0 else { return }
        rest = rest.dropFirst(count)
    }
}

/// Writes a line at once, because another program may read along.
func print(_ line: String, to descriptor: Int32 = STDOUT_FILENO) { write((line + "\n").utf8, to: descriptor) }

/// Occupies closed standard descriptors, so that the library does not get their numbers. Using them stays an error.
func openMissingDescriptors() {
    for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
        _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
    }
}

private func failOutput(_ error: Int32) -> Never {
    write("portctl: standard output: \(String(cString: strerror(error)))\n".utf8, to: STDERR_FILENO)
    exit(1)
}

/// Ends the process as a write would, if the reader of the standard output has closed it.
func endUnread() {
    var output = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
    guard poll(&output, 1, 0) > 0, Int32(output.revents) & POLLERR != 0 else { return }
    raise(SIGPIPE)
    // The signal was ignored, or the process would have ended.
    failOutput(EPIPE)
}

func print(_ table: Table) {
    for line in table.lines(toWidth: terminalWidth, isStyled: Style.isUsed) { print(line) }
}

/// Writes facts, each beside its title. The further lines of a long fact stand below its first.
func print(facts rows: [(title: String, text: String)], style: (_ title: String) -> Style? = { _ in nil }) {
    let indent = (rows.map { columns(of: $0.title) }.max() ?? 0) + 2
    for (title, text) in rows {
        let width = terminalWidth.map { max(20, $0 - indent) }
        for (number, line) in wrapped(text, toWidth: width).enumerated() {
            let start = number == 0 ? title : ""
            let space = String(repeating: " ", count: indent - columns(of: start))
            print(Style.quiet(start) + space + (style(title)?(line) ?? line))
        }
    }
}

func time(_ seconds: Int, isUTC: Bool = false) -> String {
    time(seconds, isUTC: isUTC, isUTC ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d %H:%M:%S")
}

/// The time of day if it is today, else the day.
func shortTime(_ seconds: Int) -> String {
    let day = time(seconds, isUTC: false, "%Y-%m-%d")
    return day == time(Int(Glibc.time(nil)), isUTC: false, "%Y-%m-%d") ? clockTime(seconds) : day
}

func clockTime(_ seconds: Int) -> String { time(seconds, isUTC: false, "%H:%M:%S") }

private func time(_ seconds: Int, isUTC: Bool, _ pattern: String) -> String {
    var (seconds, fields) = (time_t(seconds), tm())
    if isUTC { gmtime_r(&seconds, &fields) } else { localtime_r(&seconds, &fields) }
    var buffer = [CChar](repeating: 0, count: 64)
    let count = strftime(&buffer, buffer.count, pattern, &fields)
    return String(decoding: buffer.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

func milliseconds(_ duration: Duration) -> String {
    let microseconds = Int(duration / .microseconds(1))
    return "\(microseconds / 1000)." + padded(microseconds % 1000, to: 3)
}

/// A duration in the unit that leaves one to three digits before the point.
func readable(_ duration: Duration) -> String {
    let nanoseconds = duration / .nanoseconds(1)
    for (unit, name) in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")] where nanoseconds >= unit {
        let value = nanoseconds / unit
        return "\(rounded(value, value >= 100 ? 0 : value >= 10 ? 1 : 2)) \(name)"
    }
    return "\(Int(nanoseconds.rounded())) ns"
}

private func rounded(_ value: Double, _ decimals: Int) -> String {
    let scale = (0..<decimals).reduce(1) { scale, _ in scale * 10 }
    let scaled = Int((value * Double(scale)).rounded())
    return decimals == 0 ? "\(scaled)" : "\(scaled / scale)." + padded(scaled % scale, to: decimals)
}

func padded(_ number: Int, radix: Int = 10, to width: Int) -> String {
    let digits = String(number, radix: radix)
    return String(repeating: "0", count: width - digits.count) + digits
}
