import PortsTracing
import XPC

func ask(_ session: XPCSession) throws -> String {
    session.trace()
    return try session.sendSync("Who?")
}

func listen() throws -> XPCListener {
    let listener = try XPCListener(service: "com.example.answers", options: .inactive) { request in
        request.accept { (question: String) in "You asked: \(question)" }
    }
    listener.trace()
    try listener.activate()
    return listener
}
