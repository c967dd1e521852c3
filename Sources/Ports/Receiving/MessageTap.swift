/// Sees each message that a port's takers take. Called by the taker, with no lock held.
protocol MessageTap: AnyObject, Sendable {
    /// - Parameter hasHandler: Whether ``handled(_:)`` may be called.
    /// - Returns: The number for ``handled(_:)``, if somebody wants to know when the handler has returned.
    func taken(_ message: ReceivedMessage, hasHandler: Bool) -> Int?
    func handled(_ number: Int)
}
