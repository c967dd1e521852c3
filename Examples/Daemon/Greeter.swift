import Glibc

/// Greets with the words of a file, and counts.
actor Greeter {
    private let path: String
    /// The words of a greeting, without the name.
    private(set) var words: String
    private let counter: Counter
    private var reloads = 0

    init(path: String, counter: Counter) {
        (self.path, self.counter, words) = (path, counter, Self.words(in: path))
    }

    func greet(_ name: String) -> String {
        counter.value += 1
        return "\(words), \(name)!"
    }

    func reload() {
        words = Self.words(in: path)
        reloads += 1
    }

    var report: Report.Reply { Report.Reply(greetings: counter.value, reloads: reloads) }

    /// The first line of a file.
    private static func words(in path: String) -> String {
        guard let file = fopen(path, "r") else { return "Hello" }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 80)
        guard fgets(&line, Int32(line.count), file) != nil else { return "Hello" }
        return String(decoding: line.prefix { $0 != 0 && $0 != 10 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
