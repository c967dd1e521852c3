import Glibc
import Workers

/// What a worker of the tests does.
package struct Work: PortRequest {
    package typealias Reply = Done

    package enum Kind: String, Codable, Sendable {
        case answer, fail, cancel, segfault, trap, kill, exit, hang, sleep, late, stop, grow, orphan, daemon, fill,
            crash, close
    }

    package struct Refused: Error, Codable, Hashable {}
    package typealias Failure = Refused

    package var kind: Kind
    package var number: Int
    /// A file that gets a line for each time that a worker handles the request.
    package var record: String?
    /// Written to the worker's standard output, and to its standard error.
    package var output = ""
    package var errors = ""

    package init(_ kind: Kind, _ number: Int = 0, record: String? = nil, output: String = "", errors: String = "") {
        (self.kind, self.number, self.record) = (kind, number, record)
        (self.output, self.errors) = (output, errors)
    }
}

/// A worker's answer.
package struct Done: Codable, Sendable, Hashable {
    package var number: Int
    package var pid: Int32
    /// A process that the worker has started.
    package var child: Int32?
    /// Its temporary folder.
    package var folder: String?
    /// Its arguments.
    package var arguments: [String] = []
}

/// Counts up, forever.
package struct Count: PortStreamRequest {
    package typealias Element = Int
    package var crashesAt: Int?
    package init(crashesAt: Int? = nil) { self.crashesAt = crashesAt }
}
