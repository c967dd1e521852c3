import Glibc

/// The file to which a service writes its standard output and its errors.
struct ServiceLog: Sendable {
    let path: String
    /// Where the output of the last start begins.
    private(set) var start: Int = 0

    /// - Parameter folder: Nil for `$XDG_STATE_HOME/swift-ports/log`, or `~/.local/state/swift-ports/log`.
    init(of service: String, in folder: String?) {
        let state = environment("XDG_STATE_HOME") ?? (environment("HOME") ?? "") + "/.local/state"
        path = absolute("\(folder ?? state + "/swift-ports/log")/\(service).log")
    }

    /// A file of this size becomes the former one at the next start.
    private static let largest = 1 << 20

    /// Makes the folder and the file, which nobody else can read.
    /// - Throws: ``ServiceFailure``.
    mutating func prepare() throws(ServiceFailure) {
        makeFolders()
        var status = stat()
        if stat(path, &status) == 0, status.st_size > Self.largest { rename(path, path + ".1") }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw ServiceFailure("the log \(path) cannot be written: \(String(cString: strerror(errno)))")
        }
        defer { close(descriptor) }
        start = fstat(descriptor, &status) == 0 ? Int(status.st_size) : 0
    }

    private func makeFolders() {
        var folder = ""
        for part in path.split(separator: "/").dropLast() {
            folder += "/\(part)"
            mkdir(folder, 0o700)
        }
    }

    private static let mostBytes = 2048

    /// The last lines since the last start, also one whose end is missing.
    func lastLines(_ count: Int) -> [String] {
        var tail = LogTail(path, from: start)
        let lines = (try? tail.last(.max, ofBytes: Self.mostBytes)) ?? []
        return (lines + [tail.unfinished]).filter { !$0.isEmpty }.suffix(count)
    }
}
