import CBench

/// Which CPUs the two ends of a row run on. Left alone, the scheduler puts them together in one run and apart in the
/// next, and that alone changes a round trip many times over.
enum Placement: UInt32 {
    case apart
    case together
    /// Wherever the scheduler puts them.
    case free

    /// The end that sends first.
    func bindNear() { cb_pin(near) }
    /// One of several that send: on any CPU but the receiver's, where the two ends are apart.
    func bindSender() { self == .apart ? cb_pin_beside(far) : cb_pin(near) }
    /// The end that answers.
    func bindFar() { cb_pin(far) }

    private var near: Int32 { self == .free ? -1 : 0 }
    private var far: Int32 { self == .apart ? 1 : near }

    var name: String {
        switch self {
        case .apart: "two CPUs"
        case .together: "one CPU"
        case .free: "any CPUs"
        }
    }
}
