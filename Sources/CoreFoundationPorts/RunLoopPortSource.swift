import CoreFoundation
import Ports
import RunLoopLocks
import Synchronization

/// A port as a version 1 source of CFRunLoops. The source ends with the port, and keeps it.
///
/// CFRunLoop reads 8 bytes from the descriptor of a source that fires. From this one, an epoll descriptor, it gets an
/// error in place of bytes that libzmq would miss. It waits for edges: `PortDescriptor.handle` makes them as long as
/// messages are left.
package final class RunLoopPortSource: @unchecked Sendable {
    // Sound: any thread may use a CFRunLoopSource.
    /// Any number of loops and modes may have the source.
    package let source: CFRunLoopSource
    private let service: Service
    private let watch = Lock<InvalidationWatch?>(nil)

    /// - Parameters:
    ///   - order: The source's place among the others of a mode.
    ///   - limit: The most messages in one callout of a loop.
    ///   - owner: What the source keeps besides the port.
    package init<Port>(
        _ descriptor: PortDescriptor<Port>, order: Int = 0, atMost limit: Int, keeping owner: AnyObject? = nil
    ) {
        nonisolated(unsafe) let owner = owner
        let service = Service(descriptor.fileDescriptor) { goesOn in
            withExtendedLifetime(owner) { _ = try? descriptor.handle(atMost: limit, while: goesOn) }
        }
        (source, self.service) = (.make(service.context, order: order), service)
        let watch = descriptor.watchEnd { [weak self] in self?.invalidate() }
        self.watch.withLock { $0 = watch }
    }

    deinit { watch.withLock { $0 }?.cancel() }

    /// Adds the source to a loop's mode.
    package func add(to loop: CFRunLoop, forMode mode: CFRunLoopMode) {
        CFRunLoopAddSource(loop, source, mode)
        // Another thread may have invalidated the source meanwhile. Then it would stay in the mode for ever.
        if !CFRunLoopSourceIsValid(source) { CFRunLoopRemoveSource(loop, source, mode) }
    }

    /// Removes the source from a loop's mode. A callout in progress ends after the message in hand.
    package func remove(from loop: CFRunLoop, forMode mode: CFRunLoopMode) {
        service.changes.add(1, ordering: .relaxed)
        CFRunLoopRemoveSource(loop, source, mode)
    }

    /// Removes the source from all loops. A callout in progress ends after the message in hand.
    package func invalidate() {
        service.changes.add(1, ordering: .relaxed)
        CFRunLoopSourceInvalidate(source)
    }
}

extension CFRunLoopSource {
    /// Makes a version 1 source.
    package static func make(_ context: CFRunLoopSourceContext1, order: Int = 0) -> CFRunLoopSource {
        var context = context
        let source = withUnsafeMutablePointer(to: &context) { context in
            // By the version, CFRunLoop knows which context it is.
            context.withMemoryRebound(to: CFRunLoopSourceContext.self, capacity: 1) {
                CFRunLoopSourceCreate(nil, order, $0)
            }
        }
        guard let source else { preconditionFailure("no memory is left for a CFRunLoopSource") }
        return source
    }
}

/// What the source calls.
private final class Service: Sendable {
    private let descriptor: Int32
    private let handle: @Sendable (_ goesOn: () -> Bool) -> Void
    /// Counts the removals.
    let changes = Atomic(0)

    init(_ descriptor: Int32, _ handle: @escaping @Sendable (() -> Bool) -> Void) {
        (self.descriptor, self.handle) = (descriptor, handle)
    }

    private func perform() {
        let before = changes.load(ordering: .relaxed)
        handle { changes.load(ordering: .relaxed) == before }
    }

    /// For a source that keeps this object.
    var context: CFRunLoopSourceContext1 {
        CFRunLoopSourceContext1(
            version: 1, info: Unmanaged.passUnretained(self).toOpaque(),
            retain: { info in
                info.map { UnsafeRawPointer(Unmanaged<Service>.fromOpaque($0).retain().toOpaque()) }
            },
            release: { info in info.map { Unmanaged<Service>.fromOpaque($0).release() } },
            copyDescription: nil, equal: nil, hash: nil,
            getPort: { info in
                info.map { Unmanaged<Service>.fromOpaque($0).takeUnretainedValue().descriptor } ?? -1
            },
            perform: { info in info.map { Unmanaged<Service>.fromOpaque($0).takeUnretainedValue().perform() } })
    }
}
