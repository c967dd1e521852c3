/// Where the control socket of a process is.
struct ControlAddress: Hashable, Sendable {
    let incarnation: Incarnation
    let directory: String

    var path: String { "\(directory)/\(incarnation)/c" }
}
