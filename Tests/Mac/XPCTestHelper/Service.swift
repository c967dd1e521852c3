import Dispatch
import Glibc
import TestSupport
import XPC

/// The service of the tests, in a process of its own.
final class Service: Sendable {
    private let ended = Shared(0)
    private let notes = Shared<[Int?]>([])
    private let kept = Shared<[XPCReceivedMessage]>([])

    func accept(_ request: XPCListener.IncomingSessionRequest) -> XPCListener.IncomingSessionRequest.Decision {
        request.accept { session in Peer(service: self, session: session) }
    }

    private struct Peer: XPCPeerHandler {
        let service: Service
        let session: XPCSession

        func handleIncomingRequest(_ message: XPCReceivedMessage) -> (any Encodable)? {
            guard let command = try? message.decode(as: Command.self) else { return Report(text: "no command") }
            switch command.verb {
            case .echo: return Report(text: command.text)
            case .process: return Report(text: "\(getpid())")
            case .push:
                for number in 0..<command.count { try? session.send(Report(text: "\(number)")) }
                return Report(text: "pushed")
            case .replyAndPush:
                message.reply(Report(text: "replied"))
                for number in 0..<command.count { try? session.send(Report(text: "\(number)")) }
                return nil
            case .note:
                service.notes.withLock { $0.append(Int(command.text)) }
                return nil
            case .notes:
                let notes = service.notes.withLock { $0 }
                return Report(text: "\(notes.count) \(notes == Array(0..<notes.count) ? "" : "not ")in order")
            case .keep:
                service.kept.withLock { $0.append(message) }
                return nil
            case .crash: abort()
            case .drop: return nil
            case .cancel:
                session.cancel(reason: command.text)
                return nil
            case .call:
                guard let endpoint = command.endpoint, let session = try? XPCSession(endpoint: endpoint) else {
                    return Report(text: "no endpoint")
                }
                do { try session.send(Report(text: command.text)) } catch { return Report(text: "\(error)") }
                return Report(text: "called")
            case .ended: return Report(text: "\(service.ended.withLock { $0 })")
            case .usage: return Report(text: "\(heapUse()) \(liveThreads())")
            }
        }

        func handleCancellation(error: XPCRichError) { service.ended.withLock { $0 += 1 } }
    }
}
