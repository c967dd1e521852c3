import CBench
import Glibc

/// Where the figures come from: without it they say nothing.
enum Machine {
    static var description: String {
        var name = utsname()
        uname(&name)
        return
            "\(processor), \(sysconf(Int32(_SC_NPROCESSORS_ONLN))) cores, \(text(name.sysname)) \(text(name.release)) "
            + "\(text(name.machine)), libzmq \(libzmq), Swift \(swift)"
    }

    private static var processor: String {
        let line = firstLine(of: "grep -m 1 '^model name' /proc/cpuinfo") ?? ""
        return line.split(separator: ":").last.map { $0.drop { $0 == " " } }.map(String.init) ?? "?"
    }

    /// Today, in UTC.
    static var date: String { firstLine(of: "date -u +%Y-%m-%d") ?? "?" }

    private static var libzmq: String {
        var (major, minor, patch): (Int32, Int32, Int32) = (0, 0, 0)
        zmq_version(&major, &minor, &patch)
        return "\(major).\(minor).\(patch)"
    }

    /// In the compiler's words: the standard library knows no patch releases.
    private static var swift: String {
        guard let text = firstLine(of: "swiftc --version 2>/dev/null") else { return "?" }
        return text.split(separator: " ").drop { $0 != "version" }.dropFirst().first.map(String.init) ?? "?"
    }

    /// A C array of characters, which Swift sees as a tuple.
    private static func text<Characters: BitwiseCopyable>(_ characters: Characters) -> String {
        withUnsafeBytes(of: characters) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }
}
