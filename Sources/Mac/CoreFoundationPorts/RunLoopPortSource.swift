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
    private let removals = Removals()
    private let watch = Lock<InvalidationWatch?>(nil)

    /// - Parameters:
    ///   - order: The source's place among the others of a mode.
    ///   - limit: The most messages in one callout of a loop.
    ///   - owner: An object that the source keeps besides the port.
    package init<Port>(
        _ descriptor: PortDescriptor<Port>, order: Int = 0, atMost limit: Int, keeping owner: AnyObject? = nil
    ) {
        source = .make(descriptor.fileDescriptor, order: order) { [removals] in
            let before = removals.count.load(ordering: .relaxed)
            withExtendedLifetime(owner) {
                _ = try? descriptor.handle(atMost: limit) { removals.count.load(ordering: .relaxed) == before }
            }
        }
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
        removals.count.add(1, ordering: .relaxed)
        CFRunLoopRemoveSource(loop, source, mode)
    }

    /// Removes the source from all loops. A callout in progress ends after the message in hand.
    package func invalidate() {
        removals.count.add(1, ordering: .relaxed)
        CFRunLoopSourceInvalidate(source)
    }
}

private final class Removals: Sendable {
    let count = Atomic(0)
}

extension CFRunLoopSource {
    /// Makes a version 1 source, which keeps what it calls.
    package static func make(
        _ descriptor: Int32, order: Int = 0, perform: @escaping () -> Void
    ) -> CFRunLoopSource {
        let callout = Callout(descriptor, perform)
        var context = callout.context
        let source = withUnsafeMutablePointer(to: &context) { context in
            // By the version, CFRunLoop knows which context it is.
            context.withMemoryRebound(to: CFRunLoopSourceContext.self, capacity: 1) { context in
                withExtendedLifetime(callout) { CFRunLoopSourceCreate(nil, order, context) }
            }
        }
        guard let source else { preconditionFailure("no memory is left for a CFRunLoopSource") }
        return source
    }
}

/// The closure of a source, and the descriptor that it waits for.
private final class Callout {
    private let descriptor: Int32
    private let perform: () -> Void

    init(_ descriptor: Int32, _ perform: @escaping () -> Void) {
        (self.descriptor, self.perform) = (descriptor, perform)
    }

    /// For a source that keeps this object.
    var context: CFRunLoopSourceContext1 {
        CFRunLoopSourceContext1(
            version: 1, info: Unmanaged.passUnretained(self).toOpaque(),
            retain: { info in
                info.map { UnsafeRawPointer(Unmanaged<Callout>.fromOpaque($0).retain().toOpaque()) }
            },
            release: { info in info.map { Unmanaged<Callout>.fromOpaque($0).release() } },
            copyDescription: nil, equal: nil, hash: nil,
            getPort: { info in
                info.map { Unmanaged<Callout>.fromOpaque($0).takeUnretainedValue().descriptor } ?? -1
            },
            perform: { info in info.map { Unmanaged<Callout>.fromOpaque($0).takeUnretainedValue().perform() } })
    }
}
