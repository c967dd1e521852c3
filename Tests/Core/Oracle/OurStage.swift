import CRunLoopShims
import RunLoops

/// Ours. Its runs are ordinary ones, or driven by another loop: poll(2).
package final class OurStage: Stage, @unchecked Sendable {
    private enum Item {
        case source0(ThreadRunLoop.Source0)
        case port(ThreadRunLoop.Source1, EventDescriptor)
        case timer(ThreadRunLoop.Timer)
        case observer(ThreadRunLoop.Observer)
    }

    /// What both loops of a script share.
    private final class Items {
        var items: [String: Item] = [:]
    }

    package let trace: Trace
    private let loop = ThreadRunLoop.current
    // Sound: a script plays on one thread, or on another while that one waits.
    private let shared: Items
    private let isDriven: Bool

    package init(isDriven: Bool = false) {
        trace = Trace()
        shared = Items()
        self.isDriven = isDriven
    }

    private init(_ stage: OurStage) {
        trace = stage.trace
        shared = stage.shared
        isDriven = stage.isDriven
    }

    package func sibling() -> any Stage { OurStage(self) }

    private func item(_ name: String) -> Item {
        guard let item = shared.items[name] else { preconditionFailure("no item \(name)") }
        return item
    }

    package func makeSource0(
        _ name: String, order: Int, moved: @escaping @Sendable (Move) -> Void, perform: @escaping Action
    ) {
        shared.items[name] = .source0(
            .init(
                order: order, schedule: { _, mode in moved(.joins(mode.rawValue)) },
                cancel: { _, mode in moved(.leaves(mode.rawValue)) }, perform: perform))
    }

    package func makePort(_ name: String, perform: @escaping Action) {
        let event = madeEvent()
        shared.items[name] = .port(
            .init(descriptor: event.descriptor) { _ in
                guard event.clear() > 0 else { return false }
                perform()
                return true
            }, event)
    }

    package func makeTimer(_ name: String, milliseconds: Int, every: Int, fire: @escaping Action) {
        shared.items[name] = .timer(
            .init(at: .now + .milliseconds(milliseconds), every: .milliseconds(every)) { _ in fire() })
    }

    package func makeObserver(
        _ name: String, _ activities: ThreadRunLoop.Activity, repeats: Bool, order: Int,
        tell: @escaping @Sendable (ThreadRunLoop.Activity) -> Void
    ) {
        shared.items[name] = .observer(
            .init(activities, repeats: repeats, order: order) { _, activity in tell(activity) })
    }

    package func add(_ name: String, to mode: String) {
        switch item(name) {
        case .source0(let source): _ = try? loop.add(source, forMode: .init(mode))
        case .port(let source, _):
            do { try loop.add(source, forMode: .init(mode)) } catch { trace("\(error)") }
        case .timer(let timer): _ = try? loop.add(timer, forMode: .init(mode))
        case .observer(let observer): _ = try? loop.add(observer, forMode: .init(mode))
        }
    }

    package func remove(_ name: String, from mode: String) {
        switch item(name) {
        case .source0(let source): loop.remove(source, forMode: .init(mode))
        case .port(let source, _): loop.remove(source, forMode: .init(mode))
        case .timer(let timer): loop.remove(timer, forMode: .init(mode))
        case .observer(let observer): loop.remove(observer, forMode: .init(mode))
        }
    }

    package func contains(_ name: String, in mode: String) -> Bool {
        switch item(name) {
        case .source0(let source): loop.contains(source, forMode: .init(mode))
        case .port(let source, _): loop.contains(source, forMode: .init(mode))
        case .timer(let timer): loop.contains(timer, forMode: .init(mode))
        case .observer(let observer): loop.contains(observer, forMode: .init(mode))
        }
    }

    package func isValid(_ name: String) -> Bool {
        switch item(name) {
        case .source0(let source): source.isValid
        case .port(let source, _): source.isValid
        case .timer(let timer): timer.isValid
        case .observer(let observer): observer.isValid
        }
    }

    package func invalidate(_ name: String) {
        switch item(name) {
        case .source0(let source): source.invalidate()
        case .port(let source, _): source.invalidate()
        case .timer(let timer): timer.invalidate()
        case .observer(let observer): observer.invalidate()
        }
    }

    package func signal(_ name: String) {
        if case .source0(let source) = item(name) { source.signal() }
    }

    package func raise(_ name: String) {
        if case .port(_, let event) = item(name) { event.raise() }
    }

    package func redate(_ name: String, milliseconds: Int) {
        if case .timer(let timer) = item(name) { timer.nextFireDate = .now + .milliseconds(milliseconds) }
    }

    package func block(in modes: [String], _ body: @escaping Action) {
        try? loop.perform(inModes: modes.map { .init($0) }, body)
    }

    package func blockAndWake(in modes: [String], _ body: @escaping Action) {
        // Wakes the loop by itself.
        block(in: modes, body)
    }

    package func addCommonMode(_ mode: String) {
        do { try loop.addCommonMode(.init(mode)) } catch { trace("\(error)") }
    }

    package var modes: [String] { loop.allModes.map(\.rawValue).sorted() }
    package var currentMode: String? { loop.currentMode?.rawValue }
    package var hasTimerFireDate: Bool { loop.nextTimerFireDate() != nil }
    package var isWaiting: Bool { loop.isWaiting }
    package func stop() { loop.stop() }
    package func wakeUp() { loop.wakeUp() }

    package func runOnce(_ mode: String, seconds: Double, returnAfterSourceHandled: Bool) -> String {
        do {
            let result =
                isDriven
                ? try drive(.init(mode), seconds, returnAfterSourceHandled)
                : try loop.runInMode(.init(mode), seconds: seconds, returnAfterSourceHandled: returnAfterSourceHandled)
            return "\(result)"
        } catch {
            return "\(error)"
        }
    }

    private func drive(
        _ mode: ThreadRunLoop.Mode, _ seconds: Double, _ returnAfterSourceHandled: Bool
    ) throws(RunLoopError) -> ThreadRunLoop.RunResult {
        func limit() -> MonotonicInstant {
            if seconds <= 0 { return .distantPast }
            return seconds <= 1e9 ? .now + .seconds(seconds) : .distantFuture
        }
        guard
            let run = try ThreadRunLoop.DrivenRun(
                unlessEmpty: mode, until: limit(), returnAfterSourceHandled: returnAfterSourceHandled)
        else { return .finished }
        while true {
            _ = crl_poll(run.descriptor, -1, MonotonicInstant(after: run.prepare()).timeout)
            if let result = run.dispatch() { return result }
        }
    }
}
