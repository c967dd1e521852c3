import TypedPorts

/// The state of a worker, as the error of its request shows it.
enum PoolFailure {
    /// The worker is done with the request.
    case answered
    case timedOut(wasHandled: Bool)
    /// The worker may be busy with the request.
    case unknown
    /// Nobody has handled the request, because the worker ends.
    case notHandled
    /// The request has not left this process. The worker may be stopped, or busy.
    case unsent
    /// The worker has ended, or its handler has let the request go.
    case unanswered
    /// The worker has ended, and may have handled the request.
    case workerGone

    init(_ error: any Error, of worker: PoolWorker) {
        guard let error = error as? PortError, error.port?.pid == worker.process.pid else {
            self = error is CancellationError || error is StreamIdleTimeout ? .unknown : .answered
            return
        }
        self =
            switch error {
            case .isInvalid, .refused: .notHandled
            case .cannotConnect: .unsent
            case .becameInvalid: .workerGone
            case .unanswered: .unanswered
            case .receiveTimedOut: .timedOut(wasHandled: true)
            case .sendTimedOut: .timedOut(wasHandled: false)
            case .connectionLost: .unknown
            default: .answered
            }
    }
}
