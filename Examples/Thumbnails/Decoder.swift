extension Picture {
    /// Decodes every fourth pixel of every fourth line. The decoder trusts the size in the file's header, as too many do: a
    /// lie in there ends the process.
    init(shrinking file: [UInt8]) throws {
        let lines = file.split(separator: UInt8(ascii: "\n"), maxSplits: 3, omittingEmptySubsequences: false)
        let size = lines.dropFirst().first.map { String(decoding: $0, as: UTF8.self).split(separator: " ") } ?? []
        guard lines.count == 4, lines[0].elementsEqual("P5".utf8), let width = size.first.flatMap({ Int($0) }),
            let height = size.last.flatMap({ Int($0) })
        else { throw Shrink.Failure(description: "it is no PGM file") }
        (self.width, self.height) = ((width + 3) / 4, (height + 3) / 4)
        pixels = lines[3].withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return [] }
            var pixels: [UInt8] = []
            // From the last pixel to the first.
            for line in stride(from: 0, to: height, by: 4).reversed() {
                for column in stride(from: 0, to: width, by: 4).reversed() {
                    pixels.append(start.load(fromByteOffset: line * width + column, as: UInt8.self))
                }
            }
            return pixels.reversed()
        }
    }
}
