extension WireHeader {
    /// What the log calls a message.
    func text(_ count: Int, size: Int) -> String {
        let subject =
            switch kind {
            case .message: "message of id \(id)"
            case .request: "request \(request) of id \(id)"
            case .reply: "reply to request \(request)"
            case .failure: "failure of request \(request)"
            case .drainProbe: "drain probe \(request)"
            }
        return "\(subject), \(count) \(count == 1 ? "component" : "components"), \(size) bytes"
    }
}
