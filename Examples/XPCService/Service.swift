import Dispatch
import XPC

let serviceName = "com.example.xpc-service"

/// Takes the messages of one client. The file is as it would be on macOS.
struct Calculator: XPCPeerHandler {
    let session: XPCSession

    func handleIncomingRequest(_ message: XPCReceivedMessage) -> (any Encodable)? {
        do {
            let request = try message.decode(as: CalculationRequest.self)
            if request.wantsProgress {
                try session.send(Progress(text: "adding \(request.firstNumber) and \(request.secondNumber)"))
            }
            return CalculationResponse(result: request.firstNumber + request.secondNumber)
        } catch {
            print("Service: I cannot handle the message: \(error)")
            return nil
        }
    }
}

func serve() throws -> Never {
    let listener = try XPCListener(service: serviceName) { request in
        request.accept { session in Calculator(session: session) }
    }
    withExtendedLifetime(listener) { dispatchMain() }
}
