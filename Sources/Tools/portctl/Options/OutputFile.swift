#if CommandLine
    import ArgumentParser
    import Glibc
    import Ports

    struct OutputOption: ParsableArguments {
        @Option(name: .shortAndLong, help: "The file; - writes to the standard output.", completion: .file())
        var output: String?

        /// The chosen file.
        /// - Throws: An error when the file cannot be written, before there is anything to write.
        func file(default path: String) throws -> OutputFile { try OutputFile(path: output ?? path) }
    }

    /// A file that a command will write; - stands for the standard output.
    struct OutputFile {
        let path: String

        var isStandardOutput: Bool { path == "-" }

        fileprivate init(path: String) throws {
            self.path = path
            if isStandardOutput { return }
            // The check does not open the file, because the reader of a FIFO would see its end.
            var status = stat()
            if stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
                throw CannotWrite(path: path, errno: EISDIR)
            }
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
            let isWritable = access(path, W_OK) == 0 || errno == ENOENT && access(folder, W_OK | X_OK) == 0
            if path.isEmpty || !isWritable { throw CannotWrite(path: path, errno: errno) }
        }

        /// - Parameter use: The instruction for the reader after the file's name.
        func write(_ text: String, use: String? = nil) throws {
            if isStandardOutput { return portctl.write(text.utf8) }
            guard let file = fopen(path, "w") else { throw CannotWrite(path: path, errno: errno) }
            let bytes = Array(text.utf8)
            let count = fwrite(bytes, 1, bytes.count, file)
            let isClosed = fclose(file) == 0
            guard count == bytes.count, isClosed else { throw CannotWrite(path: path, errno: errno) }
            print("wrote \(path.escaped)" + (use.map { ": \($0)" } ?? ""))
        }
    }

    private struct CannotWrite: Problem {
        let path: String
        let errno: Int32
        var description: String {
            "cannot write “\(path.escaped)”: \(String(cString: strerror(errno))); name another file with -o"
        }
    }
#endif
