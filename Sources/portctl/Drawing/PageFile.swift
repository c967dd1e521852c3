import ArgumentParser
import Glibc

struct PageFile: ParsableArguments {
    @Option(name: .shortAndLong, help: "The file; - writes to the standard output.", completion: .file())
    var output: String?

    func write(_ html: String, default name: String) throws {
        let path = output ?? name
        if path == "-" { return portctl.write(html.utf8) }
        guard let file = fopen(path, "w") else { throw CannotWrite(path: path, errno: errno) }
        let bytes = Array(html.utf8)
        let count = fwrite(bytes, 1, bytes.count, file)
        let isClosed = fclose(file) == 0
        guard count == bytes.count, isClosed else { throw CannotWrite(path: path, errno: errno) }
        print("wrote \(printable(path)): open it in a browser")
    }
}

private struct CannotWrite: Error, CustomStringConvertible {
    let path: String
    let errno: Int32
    var description: String { "cannot write \(printable(path)): \(String(cString: strerror(errno)))" }
}
