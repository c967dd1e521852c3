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

/// The first line of a file of the kernel's.
package func line(in file: String) -> String? {
    guard let file = fopen(file, "r") else { return nil }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 32)
    return fgets(&line, Int32(line.count), file).map { String(String(cString: $0).prefix { $0 != "\n" }) }
}

/// The number that a file of the kernel's holds.
package func number(in file: String) -> Int? { line(in: file).flatMap { Int($0.prefix { $0.isNumber }) } }
