import Dispatch
import XPC

/// A client with one session. The file is as it would be on macOS.
final class Client: Sendable {
    let session: XPCSession
    private let (told, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))

    init() throws {
        session = try XPCSession(
            machService: serviceName,
            incomingMessageHandler: { [told] (progress: Progress) -> (any Encodable)? in
                print("Client: the service says that it is \(progress.text).")
                told.signal()
                return nil
            },
            cancellationHandler: { [ended] error in
                print("Client: the session has ended, and may be tried again: \(error.canRetry).")
                ended.signal()
            })
    }

    /// Waits for the reply.
    func add(_ first: Int, _ second: Int) throws {
        let response: CalculationResponse = try session.sendSync(
            CalculationRequest(firstNumber: first, secondNumber: second, wantsProgress: true))
        told.wait()
        print("Client: \(first) + \(second) = \(response.result)")
    }

    /// Goes on without the reply, which a handler gets.
    func addLater(_ first: Int, _ second: Int) throws {
        let replied = DispatchSemaphore(value: 0)
        let request = CalculationRequest(firstNumber: first, secondNumber: second)
        try session.send(request) { (reply: Result<CalculationResponse, any Error>) in
            switch reply {
            case .success(let response): print("Client: \(first) + \(second) = \(response.result), later")
            case .failure(let error): print("Client: no reply: \(error)")
            }
            replied.signal()
        }
        replied.wait()
    }

    func waitForEnd() { ended.wait() }
}
