import CoreFoundation
import CoreFoundationPorts
import Dispatch
import Foundation
import Ports
import RunLoopLocks
import RunLoops

/// A Foundation port that names one of this library's ports: the superclass of ``NSMachPort`` and ``MessagePort``. A port
/// that was made in this process can also receive. A port that came in a message or was found by its name can only send.
///
/// There is one object for each port while somebody keeps the object, and ports are equal when they name the same port.
/// A `RunLoop` keeps the ports that were added to it. A port that can receive becomes invalid when nobody keeps it. Any
/// thread may call all methods.
open class SendRightPort: Port, @unchecked Sendable {
    // Sound: constants, and state behind a lock.
    /// The right to send to the port, for the library's own calls; nil when the process had no means left for a port.
    public let sendRight: MachPort.SendRight?
    /// The right to receive, if any.
    let end: (any ReceivingEnd)?

    private struct Delegate: @unchecked Sendable {
        // As in `MessageTarget`.
        weak var object: (any PortDelegate)?
        var target: MessageTarget { MessageTarget(port: nil, delegate: object) }
    }

    /// The port's handler has it without the port.
    private final class CurrentDelegate: Sendable {
        let value = Lock(Delegate())
    }

    private let currentDelegate = CurrentDelegate()

    private struct State {
        var source: RunLoopPortSource?
        var watch: InvalidationWatch?
        var isInvalid = false
    }

    private let state = Lock(State())

    init(_ end: (any ReceivingEnd)?, _ sendRight: MachPort.SendRight?) {
        (self.end, self.sendRight) = (end, sendRight)
        super.init()
        if let end {
            handleMessages(of: end)
            end.onInvalidation { [weak self] in self?.becomeInvalid() }
        } else {
            watch()
        }
    }

    deinit {
        let (source, watch, isInvalid) = state.withLock { ($0.source, $0.watch, $0.isInvalid) }
        source?.invalidate()
        watch?.cancel()
        PortObjects.shared.remove(self)
        guard let end, !isInvalid else { return }
        end.invalidate()
        // As Foundation's `SocketPort` does it. An observer must not keep the object.
        NotificationCenter.default.post(name: Port.didBecomeInvalidNotification, object: self)
    }

    private func handleMessages(of end: any ReceivingEnd) {
        // Called under the port's lock: the last reference to an object must not go there.
        end.setTarget { [weak self, currentDelegate] in
            var target = currentDelegate.value.withLock { $0.target }
            target.port = self
            return target
        }
    }

    /// Leaves the port to another object, which was made at the same time.
    func yield(to other: SendRightPort) {
        guard let end else { return }
        state.withLock { $0.isInvalid = true }
        other.handleMessages(of: end)
    }

    /// Watches for the end of a port that can only send.
    private func watch() {
        guard let sendRight, sendRight.isValid else { return state.withLock { $0.isInvalid = true } }
        let watch = InvalidationWatch(sendRight) { [weak self] in
            // The calling thread serves all peers, and must not wait for observers of a notification.
            guard let self else { return }
            Self.notifications.async { self.becomeInvalid() }
        }
        let isInvalid = state.withLock { state in
            if !state.isInvalid { state.watch = watch }
            return state.isInvalid
        }
        if isInvalid { watch.cancel() }
    }

    private static let notifications = DispatchQueue(label: "swift-ports notifications")

    // MARK: Validity

    /// Whether messages can be sent to the port.
    open override var isValid: Bool {
        if state.withLock({ $0.isInvalid }) { return false }
        return end?.isValid ?? sendRight?.isValid ?? false
    }

    /// Makes the port invalid, for good, and posts `Port.didBecomeInvalidNotification` once. While the delegate handles a
    /// message on another thread, the call waits for that. A port that can only send does not end the port that it names.
    open override func invalidate() { if let end { end.invalidate() } else { becomeInvalid() } }

    private func becomeInvalid() {
        let (isFirst, source, watch) = state.withLock { state in
            defer { (state.isInvalid, state.source, state.watch) = (true, nil, nil) }
            return (!state.isInvalid, state.source, state.watch)
        }
        guard isFirst else { return }
        source?.invalidate()
        watch?.cancel()
        PortObjects.shared.remove(self)
        NotificationCenter.default.post(name: Port.didBecomeInvalidNotification, object: self)
    }

    // MARK: Delegate

    /// Sets the delegate, which handles messages on the threads of the loops that the port is added to. The port does not
    /// keep the delegate. Without a delegate, a loop takes each message and drops it, as on macOS.
    open override func setDelegate(_ anObject: (any PortDelegate)?) {
        let delegate = Delegate(object: anObject)
        currentDelegate.value.withLock { $0 = delegate }
        // The delegate takes the place of a handler that the program has set since.
        if anObject != nil, let end { handleMessages(of: end) }
    }

    /// The delegate.
    open override func delegate() -> (any PortDelegate)? { currentDelegate.value.withLock { $0.target }.delegate }

    // MARK: Loops

    /// Adds the port to a mode of a loop, which then handles one message in a turn. `RunLoop.add(_:forMode:)` calls this
    /// method, and keeps the port. Nothing happens to a port that can only send.
    open override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        guard let source = source() else {
            if delegate() != nil {
                log.warning(
                    once: "delegate of a port that can only send",
                    "a port with a delegate was added to a loop, and can only send: messages come to the object that has made "
                        + "the port, such as NSMachPort()")
            }
            return
        }
        source.add(to: runLoop.getCFRunLoop(), forMode: mode.cfMode)
        LoopEnd.note(self, in: runLoop, mode) { port, loop in loop.remove(port, forMode: mode) }
        UnservedMainLoop.note(runLoop, mode)
    }

    /// Removes the port from a loop's mode. `RunLoop.remove(_:forMode:)` calls this method.
    open override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        state.withLock { $0.source }?.remove(from: runLoop.getCFRunLoop(), forMode: mode.cfMode)
    }

    private func source() -> RunLoopPortSource? {
        if let source = state.withLock({ $0.source }) { return source }
        guard let end, isValid else { return nil }
        do throws(PortError) {
            let made = try end.makeSource(atMost: 1)
            let source = state.withLock { state in
                if !state.isInvalid, state.source == nil { state.source = made }
                return state.source
            }
            return source
        } catch {
            NSLog("%@", "no loop can handle the messages of a port: \(error)")
            return nil
        }
    }

    // MARK: Sending

    /// No bytes of a message's components are reserved.
    open override var reservedSpaceLength: Int { 0 }

    /// Sends a message with the id 0, otherwise as the form with a `msgid`.
    @discardableResult
    open override func send(
        before limitDate: Date, components: NSMutableArray?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        send(before: limitDate, msgid: 0, components: components, from: receivePort, reserved: headerSpaceReserved)
    }

    /// Sends a message. The call blocks while the port's queue is full, until the date; when there is room, a date in the
    /// past will do. Components are `Data` and ports of this library. `PortMessage.send(before:)` calls this method.
    /// - Returns: Whether the message was sent: it is queued at the port or on the way there.
    @discardableResult
    open override func send(
        before limitDate: Date, msgid msgID: Int, components: NSMutableArray?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        guard !state.withLock({ $0.isInvalid }), let sendRight else { return false }
        let replyPort = (receivePort as? SendRightPort)?.sendRight
        // No message can name another library's port.
        guard receivePort == nil || replyPort != nil else { return false }
        return sendRight.send(msgID, components, replyPort: replyPort, until: limitDate.deadline)
    }

    // MARK: Identity

    open override func isEqual(_ object: Any?) -> Bool {
        guard let other = object as? SendRightPort else { return false }
        return other === self || sendRight != nil && other.sendRight == sendRight
    }

    open override var hash: Int { sendRight?.hashValue ?? ObjectIdentifier(self).hashValue }
}

extension Date {
    /// The date by the clock that measures waits.
    fileprivate var deadline: MonotonicInstant {
        let seconds = timeIntervalSinceNow
        guard seconds < 1e9 else { return .distantFuture }
        if seconds <= 0 { return .distantPast }
        return MonotonicInstant(nanoseconds: MonotonicInstant.now.nanoseconds + UInt64(seconds * 1e9))
    }
}
