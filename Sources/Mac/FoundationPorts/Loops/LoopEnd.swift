import Foundation
import Glibc

/// The ports that the RunLoop of a thread still has when the thread ends. On macOS the loop ends with its thread, and
/// releases its ports. Foundation on Linux would keep the loop and the ports for ever.
final class LoopEnd {
    private struct Place: Hashable {
        let port: ObjectIdentifier
        let mode: RunLoop.Mode
    }

    private struct Item {
        weak var port: AnyObject?
        let remove: () -> Void
    }

    private var items: [Place: Item] = [:]
    private var mostItems = 64

    /// Calls a closure at the end of the calling thread if the loop is the thread's, and the port still exists.
    static func note<Port: AnyObject>(
        _ port: Port, in loop: RunLoop, _ mode: RunLoop.Mode, remove: @escaping (Port, RunLoop) -> Void
    ) {
        // The main thread's end is the process's.
        guard loop === RunLoop.current, loop !== RunLoop.main else { return }
        let known = pthread_getspecific(key).map { Unmanaged<LoopEnd>.fromOpaque($0).takeUnretainedValue() }
        let end = known ?? LoopEnd()
        if known == nil { pthread_setspecific(key, Unmanaged.passRetained(end).toOpaque()) }
        end.items[Place(port: ObjectIdentifier(port), mode: mode)] = Item(port: port) { [weak port] in
            if let port { remove(port, loop) }
        }
        end.prune()
    }

    private func prune() {
        guard items.count > mostItems else { return }
        items = items.filter { $0.value.port != nil }
        mostItems = max(64, 2 * items.count)
    }

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key) { end in
            guard let end else { return }
            for item in Unmanaged<LoopEnd>.fromOpaque(end).takeRetainedValue().items.values { item.remove() }
        }
        return key
    }()
}
