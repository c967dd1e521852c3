import CDispatch
@preconcurrency import CoreFoundation
import Dispatch

// swift-format-ignore: AlwaysUseLowerCamelCase
/// Sets the dispatch queue that calls the callback of a local port, one message at a time; nil removes the queue. The call
/// does not change a port with a run-loop source, an invalid port or a remote port. The queue keeps the port until the port
/// is invalid or leaves the queue. CoreFoundation's headers for Linux lack this function.
public func CFMessagePortSetDispatchQueue(_ port: CFMessagePort!, _ queue: DispatchQueue!) {
    port.body.setQueue(queue, port)
}

/// The same for C.
@usableFromInline
@_cdecl("CFMessagePortSetDispatchQueue")
func setQueueOfMessagePort(_ port: CFMessagePort, _ queue: OpaquePointer?) {
    port.body.setQueue(queue.flatMap(DispatchQueue.targeting), port)
}

extension DispatchQueue {
    /// A serial queue whose blocks run on a queue of C: Dispatch has no public way from C's queues to Swift's.
    fileprivate static func targeting(_ queue: dispatch_queue_t) -> DispatchQueue? {
        let made = DispatchQueue(label: "CFMessagePort", attributes: .initiallyInactive)
        guard let own = Mirror(reflecting: made).children.first?.value as? dispatch_queue_t else {
            preconditionFailure("this version of Dispatch has another DispatchQueue")
        }
        dispatch_set_target_queue(dispatch_object_t(_dq: own), queue)
        made.activate()
        return made
    }
}
