@preconcurrency import CoreFoundation
import Ports
import RunLoops

extension MessagePortBody {
    private var remote: RemoteMessagePort {
        switch port {
        case .local(let port, _): RemoteMessagePort(port.sendRight)
        case .remote(let remote): remote
        }
    }

    /// Sends data without a reply.
    func send(id: Int32, _ data: CFData?, timeout: CFTimeInterval) throws(PortError) {
        let (right, id) = (remote.sendRight, UInt32(bitPattern: id))
        guard let data else {
            return try right.send(MachPort.Message(id: id, []), before: .init(after: timeout))
        }
        let bytes = UnsafeRawBufferPointer(start: CFDataGetBytePtr(data), count: CFDataGetLength(data))
        try right.send(id: id, bytes: bytes.bytes, before: .init(after: timeout))
    }

    /// Sends a request, and runs the calling thread's CFRunLoop in the mode until the reply.
    func request(
        id: Int32, _ data: CFData?, sendTimeout: CFTimeInterval, replyTimeout: CFTimeInterval, mode: CFRunLoopMode
    ) throws(PortError) -> [UInt8]? {
        let wait = ReplyWait(mode: mode)
        let message = MachPort.Message(id: UInt32(bitPattern: id), data: data.map(Array.init(_:)))
        let reply = try AskedReply(
            of: remote, message, replyLimit: Self.messageLimit, before: .init(after: sendTimeout)
        ) { _ in wait.wake() }
        // An invalidation on another thread ends the wait.
        state.withLock { $0.waiters[ObjectIdentifier(wait)] = wait.wake }
        defer { state.withLock { $0.waiters[ObjectIdentifier(wait)] = nil } }
        wait.run(until: .init(after: replyTimeout)) { !reply.isDone && state.withLock { !$0.endsRequests } }
        if !reply.isDone, state.withLock({ $0.endsRequests }) { throw .becameInvalid(port: remote.identity) }
        return try reply.message().data
    }
}

extension PortError {
    /// The result of CFMessagePortSendRequest.
    var messagePortResult: Int32 {
        // The port had taken the request before its end.
        if case .refused = self { Self.becameInvalid } else { cfStatus }
    }

    private static let becameInvalid = Int32(kCFMessagePortBecameInvalidError)
}

/// No timeout: as CFMessagePort has it, ten days.
private let longest: CFTimeInterval = 10 * 86400

extension MonotonicInstant {
    fileprivate init(after seconds: CFTimeInterval) {
        self = seconds < longest ? .now + .seconds(max(seconds, 0)) : .distantFuture
    }
}

extension ContinuousClock.Instant? {
    fileprivate init(after seconds: CFTimeInterval) {
        self = seconds < longest ? .now + .seconds(max(seconds, 0)) : nil
    }
}
