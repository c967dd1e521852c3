// swift-format-ignore-file

import Cocoa

@objc protocol TickerDelegate {
    func ticked(_ count: Int)
}

extension Notification.Name {
    static let tickEnd = Notification.Name("tickEnd")
}

/// Ticks, and hears its own end.
@objcMembers
public final class Ticker: NSObject {
    weak var delegate: TickerDelegate?
    private let port = Port()
    private var timer: Timer?
    /// What has happened.
    @objc public private(set) dynamic var lines: [String] = []

    /// Starts to tick, on the thread's loop.
    public func start(_ interval: TimeInterval) {
        timer = Timer.scheduledTimer(
            timeInterval: interval, target: self, selector: #selector(tick), userInfo: nil, repeats: true)
        let once = Timer(
            timeInterval: interval, target: self, selector: #selector(first(_:)), userInfo: nil, repeats: false)
        RunLoop.current.add(once, forMode: .common)
        NotificationCenter.default.addObserver(
            self, selector: #selector(ended(_:)), name: .tickEnd, object: nil)
        Thread.detachNewThreadSelector(#selector(beside), toTarget: self, with: nil)
        RunLoop.current.add(port, forMode: .default)
        perform(#selector(later(_:)), with: nil, afterDelay: interval)
        performSelector(onMainThread: #selector(beside), with: nil, waitUntilDone: false)
    }

    @objc func later(_ object: Any?) { lines.append("later \(object == nil)") }

    @objc private func tick() {
        lines.append("tick")
        delegate?.ticked(lines.count)
        if lines.filter({ $0 == "tick" }).count == 2 {
            timer?.invalidate()
            port.invalidate()
            NotificationCenter.default.post(name: .tickEnd, object: self)
        }
    }

    @objc private func first(_ timer: Timer) { lines.append("first \(timer.isValid)") }

    @objc
    func ended(_ notification: Notification) {
        lines.append("ended \(notification.object as? Ticker === self)")
    }

    private let lock = NSLock()
    private var calls = 0

    // On a thread of its own, and on the main thread.
    @objc func beside() {
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
