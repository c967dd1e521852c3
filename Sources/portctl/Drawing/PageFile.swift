import ArgumentParser
import Glibc

struct PageFile: ParsableArguments {
    @Option(name: .shortAndLong, help: "The file; - writes to the standard output.", completion: .file())
    var output: String?

    /// Throws at once when the file cannot be written, before there is anything to write.
    func check(default name: String) throws {
        let path = output ?? name
        if path == "-" { return }
        // Without opening it: the reader of a FIFO would see its end.
        var status = stat()
        if stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR { throw CannotWrite(path: path, errno: EISDIR) }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        let isWritable = access(path, W_OK) == 0 || errno == ENOENT && access(folder, W_OK | X_OK) == 0
        if path.isEmpty || !isWritable { throw CannotWrite(path: path, errno: errno) }
    }

    func write(_ html: String, default name: String) throws {
        let path = output ?? name
        if path == "-" { return portctl.write(html.utf8) }
        guard let file = fopen(path, "w") else { throw CannotWrite(path: path, errno: errno) }
        let bytes = Array(html.utf8)
        let count = fwrite(bytes, 1, bytes.count, file)
        let isClosed = fclose(file) == 0
        guard count == bytes.count, isClosed else { throw CannotWrite(path: path, errno: errno) }
        print("wrote \(path.escaped): open it in a browser")
    }
}

private struct CannotWrite: Problem {
    let path: String
    let errno: Int32
    var description: String {
        "cannot write “\(path.escaped)”: \(String(cString: strerror(errno))); name another file with -o"
    }
}
