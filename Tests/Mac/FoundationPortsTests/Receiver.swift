import Foundation
import FoundationPorts
import TestSupport

/// A delegate that calls a closure.
final class Receiver: NSObject, PortDelegate {
    private let handler: (PortMessage) -> Void

    init(_ handler: @escaping (PortMessage) -> Void) { self.handler = handler }

    func handle(_ message: PortMessage) { handler(message) }
}

extension Port {
    /// Sends a message of data.
    func send(_ id: Int, _ text: String? = nil, from port: Port? = nil, before date: Date = .patience) -> Bool {
        let components = text.map { NSMutableArray(array: [Data($0.utf8)]) }
        return send(before: date, msgid: id, components: components, from: port, reserved: 0)
    }
}

extension PortMessage {
    /// The data of the components as text.
    var texts: [String] { (components ?? []).compactMap { ($0 as? Data).map { String(decoding: $0, as: UTF8.self) } } }
}

extension Date {
    static var patience: Date { .now + 60 }
}

/// Runs the thread's loop until a condition is true.
@discardableResult
func runLoop(inMode mode: RunLoop.Mode = .default, until condition: () -> Bool) -> Bool {
    let deadline = Date.patience
    while !condition() {
        if .now > deadline { return false }
        _ = RunLoop.current.run(mode: mode, before: deadline)
    }
    return true
}
