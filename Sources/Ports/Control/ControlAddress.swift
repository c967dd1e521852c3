/// Where the control socket of a process is.
struct ControlAddress: Hashable, Sendable {
    let incarnation: Incarnation
    /// The registry directory.
    let directory: String

    var path: String { "\(directory)/\(incarnation)/c" }
}
