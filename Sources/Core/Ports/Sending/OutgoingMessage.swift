/// A message on its way out: handed over inside the runtime, or a frame for another process.
enum OutgoingMessage: ~Copyable {
    /// With the descriptors in the message; nil for none.
    case local(LocalMessage, [MessageDescriptor]?)
    case frame(OutgoingFrame)

    /// The size as a frame, in bytes.
    var size: Int {
        switch self {
        case .local(let message, _): message.size
        case .frame(let outgoing): outgoing.frame.count
        }
    }

    var descriptorCount: Int {
        switch self {
        case .local(_, let descriptors): descriptors?.count ?? 0
        case .frame(let outgoing): outgoing.descriptors?.count ?? 0
        }
    }
}

/// A frame on its way out, with its descriptors, if it has any.
struct OutgoingFrame: ~Copyable {
    typealias Copy = @Sendable () throws(PortError) -> Frame

    var frame: Frame
    private(set) var descriptors: [MessageDescriptor]?
    /// Makes the frame that has copies of the bytes in place of memory; nil for a frame that needs its descriptors.
    private var copy: Copy?
    /// Whether the message would have taken memory along, if there were a way for descriptors.
    let wantsWay: Bool

    init(
        _ frame: consuming Frame, _ descriptors: [MessageDescriptor]? = nil, orCopy copy: Copy? = nil,
        wantsWay: Bool = false
    ) {
        self.frame = frame
        self.descriptors = descriptors
        self.copy = copy
        self.wantsWay = wantsWay
    }

    var canCopy: Bool { copy != nil }

    /// Gives the memory up.
    mutating func useCopy() -> Result<Void, PortError> {
        guard let copy = copy.take() else { return .success(()) }
        do throws(PortError) {
            frame = try copy()
            descriptors = nil
            return .success(())
        } catch {
            return .failure(error)
        }
    }
}
