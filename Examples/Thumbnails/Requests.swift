import Workers

/// Asks for a small picture of a large one.
struct Shrink: PortRequest {
    typealias Reply = Picture

    struct Failure: Error, Codable, CustomStringConvertible {
        var description: String
    }

    /// A file of the format PGM.
    var file: [UInt8]
}

/// Grey pixels, line by line.
struct Picture: Codable {
    var width: Int
    var height: Int
    var pixels: [UInt8]
}
