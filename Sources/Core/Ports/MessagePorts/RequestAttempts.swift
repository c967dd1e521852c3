/// Decides whether a failed attempt is followed by another.
struct RequestAttempts {
    let mayRepeat: Bool
    private var last: PortID?
    private var lastPause = Duration.zero

    init(mayRepeat: Bool) { self.mayRepeat = mayRepeat }

    /// The pause before the next attempt. It grows, because the same port may go on refusing.
    /// - Throws: The error, if another attempt could repeat the effect of a former one, or no time is left for one.
    mutating func pause(
        after error: PortError, isSent: Bool, from port: PortID, before deadline: ContinuousClock.Instant
    ) throws(PortError) -> Duration {
        let isOver =
            switch error {
            // A right inside the message cannot be sent, and would not reach another owner either.
            case _ where error.port?.id != port: true
            case .refused: false
            case .isInvalid, .becameInvalid, .connectionLost, .cannotConnect: isSent && !mayRepeat
            default: true
            }
        lastPause = last == port ? min(max(.milliseconds(10), lastPause * 2), .seconds(1)) : .zero
        last = port
        if isOver || deadline <= .now + lastPause { throw error }
        return lastPause
    }
}
