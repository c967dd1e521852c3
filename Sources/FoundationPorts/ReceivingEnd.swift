import CoreFoundationPorts
import Ports

/// The right to receive of a Foundation port: a `MachPort` or a `LocalMessagePort`.
protocol ReceivingEnd: AnyObject, Sendable {
    typealias Handler = @Sendable (MachPort.Message, ReplyRight?) -> Void

    var machPort: MachPort { get }
    var isValid: Bool { get }
    func invalidate()
    func onInvalidation(_ handler: @escaping @Sendable () -> Void)
    func setHandler(asking current: @escaping @Sendable () -> Handler?)
    func makeSource(atMost limit: Int) throws(PortError) -> RunLoopPortSource
}

extension MachPort: ReceivingEnd {
    var machPort: MachPort { self }

    func setHandler(asking current: @escaping @Sendable () -> ReceivingEnd.Handler?) {
        setHandler(ofDelegate: { () -> Handler? in
            guard let handler = current() else { return nil }
            return { handler($0, nil) }
        })
    }

    func makeSource(atMost limit: Int) throws(PortError) -> RunLoopPortSource {
        RunLoopPortSource(try PortDescriptor(self), atMost: limit)
    }
}

extension LocalMessagePort: ReceivingEnd {
    var machPort: MachPort { port }

    func setHandler(asking current: @escaping @Sendable () -> ReceivingEnd.Handler?) {
        setHandler(ofDelegate: { () -> RequestHandler? in
            guard let handler = current() else { return nil }
            return { handler($0.message, $0.replyRight) }
        })
    }

    func makeSource(atMost limit: Int) throws(PortError) -> RunLoopPortSource {
        RunLoopPortSource(try PortDescriptor(self), atMost: limit)
    }
}
