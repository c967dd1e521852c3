/// A failure together with the file it concerns.
struct FileError: Error, Equatable {
    let path: [UInt8]
    let reason: IOError
}

extension FileError {
    init(path: [UInt8], errno: Int32) {
        self.init(path: path, reason: .system(errno: errno))
    }
}

extension FileError: CustomStringConvertible {
    /// The error as `wc` words it, for instance `'a b': No such file or directory`. Always ASCII.
    var description: String { "\(PathPrinting.inMessages(path)): \(reason)" }
}
