extension WireHeader {
    /// What the log calls a message.
    func text(_ count: Int, size: Int, name: String? = nil) -> String {
        let named = name.map { " (\($0))" } ?? ""
        let subject =
            switch kind {
            case .message: "message of id \(id)"
            case .request: "request \(request) of id \(id)\(named)"
            case .reply: "reply to request \(request)"
            case .failure: "failure of request \(request)"
            case .drainProbe: "drain probe \(request)"
            }
        return "\(subject), \(count) \(count == 1 ? "component" : "components"), \(size) bytes"
    }
}
