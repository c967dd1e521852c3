import Glibc
import HeapUse

/// The names in a directory; nil when it cannot be read.
package func entries(of path: String) -> [String]? {
    guard let directory = opendir(path) else { return nil }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
        let name = withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        if name != ".", name != ".." { names.append(name) }
    }
    return names
}

/// How many descriptors the process has. When there is none left to look with, those below 1024 are tried.
package func openDescriptors() -> Int {
    entries(of: "/proc/self/fd").map { $0.count - 1 } ?? (0..<Int32(1024)).count { fcntl($0, F_GETFD) >= 0 }
}

/// How many threads the process has.
package func liveThreads() -> Int { entries(of: "/proc/self/task")?.count ?? 0 }

/// How many bytes of heap the process has in use.
package func heapUse() -> Int { Int(heap_use()) }

/// The bytes of a file; none when it cannot be read.
package func bytes(ofFile path: String) -> [UInt8] {
    guard let file = fopen(path, "r") else { return [] }
    defer { fclose(file) }
    var (all, buffer) = ([UInt8](), [UInt8](repeating: 0, count: 65536))
    while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { all += buffer.prefix(count) }
    return all
}

/// The lines of a file.
private func lines(in file: String) -> [Substring] {
    String(decoding: bytes(ofFile: file), as: UTF8.self).split(separator: "\n")
}

/// The first line of a file of the kernel's.
package func line(in file: String) -> String? { lines(in: file).first.map(String.init) }

/// How often a thread has given the processor away to wait; nil when the thread has ended.
///
/// - Parameter folder: The thread's folder in /proc, or a process's, which stands for its first thread.
package func waitCount(of folder: String) -> Int? {
    lines(in: folder + "/status").first { $0.hasPrefix("voluntary_ctxt_switches:") }?
        .split(separator: "\t").last.flatMap { Int($0) }
}

/// The number that a file of the kernel's holds.
package func number(in file: String) -> Int? { line(in: file).flatMap { Int($0.prefix { $0.isNumber }) } }

/// How long the calling thread has worked.
package func threadTime() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
}
