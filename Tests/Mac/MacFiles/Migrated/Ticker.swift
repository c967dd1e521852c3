// swift-format-ignore-file

import DarwinNames
import Foundation
import FoundationPorts

protocol TickerDelegate: AnyObject {
    func ticked(_ count: Int)
}

extension Notification.Name {
    static let tickEnd = Notification.Name("tickEnd")
}

/// Ticks, and hears its own end.
public final class Ticker: NSObject {
    weak var delegate: TickerDelegate?
    private let port = NSMachPort()
    private var timer: Timer?
    /// What has happened.
    public private(set) dynamic var lines: [String] = []

    /// Starts to tick, on the thread's loop.
    public func start(_ interval: TimeInterval) {
        timer = Timer.scheduledTimer(withTimeInterval: interval, repeats: true) { _ in self.tick() }
        let once = Timer(fire: Date(timeIntervalSinceNow: interval), interval: interval, repeats: false) { timer in
            self.first(timer)
        }
        RunLoop.current.add(once, forMode: .common)
        _ = NotificationCenter.default.addObserver(forName: .tickEnd, object: nil, queue: nil) { [weak self] notification in
            self?.ended(notification)
        }
        Thread.detachNewThread { self.beside() }
        RunLoop.current.add(port, forMode: .default)
        _ = Timer.scheduledTimer(withTimeInterval: interval, repeats: false) { _ in self.later(nil) }
        DispatchQueue.main.async { self.beside() }
    }

    func later(_ object: Any?) { lines.append("later \(object == nil)") }

    private func tick() {
        lines.append("tick")
        delegate?.ticked(lines.count)
        if lines.filter({ $0 == "tick" }).count == 2 {
            timer?.invalidate()
            port.invalidate()
            NotificationCenter.default.post(name: .tickEnd, object: self)
        }
    }

    private func first(_ timer: Timer) { lines.append("first \(timer.isValid)") }

    func ended(_ notification: Notification) {
        lines.append("ended \(notification.object as? Ticker === self)")
    }

    private let lock = NSLock()
    private var calls = 0

    // On a thread of its own, and on the main thread.
    func beside() {
        autoreleasepool {
            lock.lock()
            calls += 1
            lock.unlock()
        }
    }

    /// How often other threads have called.
    public var callsBeside: Int {
        lock.lock()
        defer { lock.unlock() }
        return calls
    }
}
