// The texts of `print(loop)` and `print(item)`.

extension ThreadRunLoop: CustomStringConvertible {
    /// The thread, the state, and the modes with their items. The corresponding CF function is `CFCopyDescription`.
    public var description: String {
        let callout = progress.currentCallout
        // Items are described after the lock.
        let (modes, running, hasEnded) = state.withLock { state in
            (
                state.modes.map { (name: $0.mode, flags: $0.flags, items: $0.items) },
                state.runs.map { state.modes[$0.mode].mode }, state.hasEnded
            )
        }
        let doing =
            if hasEnded {
                "ended"
            } else if let innermost = running.last {
                "\(isWaiting ? "waiting" : "running") in mode \(innermost)"
                    + (running.count > 1 ? " inside of \(running.dropLast().reversed().map(\.rawValue))" : "")
            } else {
                "not running"
            }
        var lines = ["run loop of \(isMain ? "the main thread" : "thread") \(threadID), \(doing)"]
        for mode in modes {
            let isCommon = mode.flags.isCommon.load(ordering: .acquiring)
            lines.append("  mode \(mode.name)\(isCommon ? ", common" : ""): \(counted(mode.items.count, "item"))")
            for item in mode.items { lines.append("    \(item.dump)\(callout.isOf(item.id) ? ", being called" : "")") }
            let count = blocks.dueCount(in: mode.flags.blockModes)
            if count > 0 { lines.append("    \(counted(count, "block")) to perform") }
        }
        return lines.joined(separator: "\n")
    }
}

extension ThreadRunLoop.Source0: CustomStringConvertible {
    /// A line with the label, the order, and how often the source was performed.
    public var description: String { Item.source0(self).dump }
}

extension ThreadRunLoop.Source1: CustomStringConvertible {
    /// A line with the label, the descriptor, the order, and how often the source was performed.
    public var description: String { Item.source1(self).dump }
}

extension ThreadRunLoop.Timer: CustomStringConvertible {
    /// A line with the label, the interval, the next fire time, and how often the timer has fired.
    public var description: String { Item.timer(self).dump }
}

extension ThreadRunLoop.Observer: CustomStringConvertible {
    /// A line with the label, the points, the order, and how often the observer was called.
    public var description: String { Item.observer(self).dump }
}

extension ThreadRunLoop.Activity: CustomStringConvertible {
    /// The points' names.
    public var description: String {
        self == .all
            ? "[all]"
            : names([
                (.entry, "entry"), (.beforeTimers, "beforeTimers"), (.beforeSources, "beforeSources"),
                (.beforeWaiting, "beforeWaiting"), (.afterWaiting, "afterWaiting"), (.exit, "exit"),
            ])
    }
}

extension ThreadRunLoop.Readiness: CustomStringConvertible {
    /// The events' names.
    public var description: String {
        names([
            (.readable, "readable"), (.writable, "writable"), (.readHangUp, "readHangUp"), (.error, "error"),
            (.hangUp, "hangUp"),
        ])
    }
}

extension ThreadRunLoop.FileEvents: CustomStringConvertible {
    /// The events' names.
    public var description: String {
        names([
            (.written, "written"), (.closedAfterWriting, "closedAfterWriting"), (.attributes, "attributes"),
            (.moved, "moved"), (.entryCreated, "entryCreated"), (.entryRemoved, "entryRemoved"),
            (.entryMovedIn, "entryMovedIn"), (.entryMovedOut, "entryMovedOut"), (.deleted, "deleted"),
            (.unmounted, "unmounted"), (.overflowed, "overflowed"), (.entryIsDirectory, "entryIsDirectory"),
        ])
    }
}

extension OptionSet {
    fileprivate func names(_ members: [(Element, String)]) -> String {
        "[" + members.filter { contains($0.0) }.map(\.1).joined(separator: ", ") + "]"
    }
}

extension Item {
    fileprivate var dump: String {
        var parts = [isValid ? name : "\(name), invalid"]
        switch self {
        case .source0(let source):
            parts += ["order \(source.order)", "performed \(counted(source.callCount, "time"))"]
            if source.isSignaled { parts.append("signalled") }
        case .source1(let source):
            parts += ["order \(source.order)", "performed \(counted(source.callCount, "time"))"]
            if source.isRaised { parts.append("raised") }
        case .timer(let timer):
            if let interval = timer.interval { parts.append("every \(seconds(interval))") }
            if timer.isValid {
                let date = timer.nextFireDate
                parts.append(date == .distantFuture ? "never due" : "due in \(seconds(date - .now))")
            }
            parts += ["order \(timer.order)", "fired \(counted(timer.callCount, "time"))"]
        case .observer(let observer):
            parts += ["of \(observer.activities)", "order \(observer.order)"]
            parts += [observer.repeats ? "repeats" : "once", "told \(counted(observer.callCount, "time"))"]
        }
        return parts.joined(separator: ", ")
    }
}

private func counted(_ count: Int, _ noun: String) -> String { count == 1 ? "1 \(noun)" : "\(count) \(noun)s" }

private func seconds(_ duration: Duration) -> String {
    // Not as an Int, because an interval may have more milliseconds than an Int holds.
    let milliseconds = (duration / .milliseconds(1)).rounded(.towardZero)
    return "\(milliseconds == 0 ? 0 : milliseconds / 1000) s"
}
