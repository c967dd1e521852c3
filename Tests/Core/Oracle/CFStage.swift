import CoreFoundation
import Foundation
import RunLoops

/// Foundation's.
package final class CFStage: Stage, @unchecked Sendable {
    private enum Item {
        case source0(CFRunLoopSource)
        case port(CFRunLoopSource, EventDescriptor)
        case timer(CFRunLoopTimer)
        case observer(CFRunLoopObserver)
    }

    /// What a source's C functions are given.
    private final class Info {
        let perform: Action
        var descriptor: Int32 = -1
        var moved: @Sendable (Move) -> Void = { _ in }

        init(_ perform: @escaping Action) { self.perform = perform }

        static func of(_ info: UnsafeMutableRawPointer?) -> Info {
            guard let info else { preconditionFailure("a source without its info") }
            return Unmanaged<Info>.fromOpaque(info).takeUnretainedValue()
        }
    }

    /// What both loops of a script share.
    private final class Items {
        var items: [String: Item] = [:]
        var infos: [Info] = []
    }

    package let trace: Trace
    private nonisolated(unsafe) let loop: CFRunLoop = CFRunLoopGetCurrent()
    // Sound: a script plays on one thread, or on another while that one waits.
    private let shared: Items

    package init() {
        trace = Trace()
        shared = Items()
    }

    private init(_ stage: CFStage) {
        trace = stage.trace
        shared = stage.shared
    }

    package func sibling() -> any Stage { CFStage(self) }

    private func item(_ name: String) -> Item {
        guard let item = shared.items[name] else { preconditionFailure("no item \(name)") }
        return item
    }

    private static func mode(_ name: String) -> CFString {
        switch name {
        case "default": kCFRunLoopDefaultMode
        case "common": kCFRunLoopCommonModes
        default: made(name)
        }
    }

    private static func name(_ mode: CFString?) -> String? {
        guard let mode else { return nil }
        if CFEqual(mode, kCFRunLoopDefaultMode) { return "default" }
        var bytes = [CChar](repeating: 0, count: 64)
        CFStringGetCString(mode, &bytes, bytes.count, CFStringBuiltInEncodings.UTF8.rawValue)
        return bytes.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } }
    }

    private static func made(_ name: String) -> CFString {
        CFStringCreateWithCString(nil, name, CFStringBuiltInEncodings.UTF8.rawValue)
    }

    package func makeSource0(
        _ name: String, order: Int, moved: @escaping @Sendable (Move) -> Void, perform: @escaping Action
    ) {
        let info = Info(perform)
        info.moved = moved
        shared.infos.append(info)
        var context = CFRunLoopSourceContext()
        context.info = Unmanaged.passUnretained(info).toOpaque()
        context.schedule = { info, _, mode in Info.of(info).moved(.joins(CFStage.name(mode) ?? "")) }
        context.cancel = { info, _, mode in Info.of(info).moved(.leaves(CFStage.name(mode) ?? "")) }
        context.perform = { Info.of($0).perform() }
        shared.items[name] = .source0(CFRunLoopSourceCreate(nil, order, &context))
    }

    package func makePort(_ name: String, perform: @escaping Action) {
        let event = madeEvent()
        let info = Info(perform)
        info.descriptor = event.descriptor
        shared.infos.append(info)
        var context = CFRunLoopSourceContext1()
        context.version = 1
        context.info = Unmanaged.passUnretained(info).toOpaque()
        context.getPort = { Info.of($0).descriptor }
        // The loop itself has lowered the eventfd.
        context.perform = { Info.of($0).perform() }
        let source = withUnsafeMutablePointer(to: &context) { context in
            context.withMemoryRebound(to: CFRunLoopSourceContext.self, capacity: 1) {
                CFRunLoopSourceCreate(nil, 0, $0)
            }
        }
        guard let source else { preconditionFailure("no source") }
        shared.items[name] = .port(source, event)
    }

    package func makeTimer(_ name: String, milliseconds: Int, every: Int, fire: @escaping Action) {
        shared.items[name] = .timer(
            CFRunLoopTimerCreateWithHandler(
                nil, CFAbsoluteTimeGetCurrent() + Double(milliseconds) / 1000, Double(every) / 1000, 0, 0
            ) { _ in fire() })
    }

    package func makeObserver(
        _ name: String, _ activities: ThreadRunLoop.Activity, repeats: Bool, order: Int,
        tell: @escaping @Sendable (ThreadRunLoop.Activity) -> Void
    ) {
        shared.items[name] = .observer(
            CFRunLoopObserverCreateWithHandler(nil, CFOptionFlags(activities.rawValue), repeats, order) { _, activity in
                tell(.init(rawValue: UInt32(activity.rawValue)))
            })
    }

    package func add(_ name: String, to mode: String) {
        switch item(name) {
        case .source0(let source), .port(let source, _): CFRunLoopAddSource(loop, source, Self.mode(mode))
        case .timer(let timer): CFRunLoopAddTimer(loop, timer, Self.mode(mode))
        case .observer(let observer): CFRunLoopAddObserver(loop, observer, Self.mode(mode))
        }
    }

    package func remove(_ name: String, from mode: String) {
        switch item(name) {
        case .source0(let source), .port(let source, _): CFRunLoopRemoveSource(loop, source, Self.mode(mode))
        case .timer(let timer): CFRunLoopRemoveTimer(loop, timer, Self.mode(mode))
        case .observer(let observer): CFRunLoopRemoveObserver(loop, observer, Self.mode(mode))
        }
    }

    package func contains(_ name: String, in mode: String) -> Bool {
        switch item(name) {
        case .source0(let source), .port(let source, _): CFRunLoopContainsSource(loop, source, Self.mode(mode))
        case .timer(let timer): CFRunLoopContainsTimer(loop, timer, Self.mode(mode))
        case .observer(let observer): CFRunLoopContainsObserver(loop, observer, Self.mode(mode))
        }
    }

    package func isValid(_ name: String) -> Bool {
        switch item(name) {
        case .source0(let source), .port(let source, _): CFRunLoopSourceIsValid(source)
        case .timer(let timer): CFRunLoopTimerIsValid(timer)
        case .observer(let observer): CFRunLoopObserverIsValid(observer)
        }
    }

    package func invalidate(_ name: String) {
        switch item(name) {
        case .source0(let source), .port(let source, _): CFRunLoopSourceInvalidate(source)
        case .timer(let timer): CFRunLoopTimerInvalidate(timer)
        case .observer(let observer): CFRunLoopObserverInvalidate(observer)
        }
    }

    package func signal(_ name: String) {
        if case .source0(let source) = item(name) { CFRunLoopSourceSignal(source) }
    }

    package func raise(_ name: String) {
        if case .port(_, let event) = item(name) { event.raise() }
    }

    package func redate(_ name: String, milliseconds: Int) {
        if case .timer(let timer) = item(name) {
            CFRunLoopTimerSetNextFireDate(timer, CFAbsoluteTimeGetCurrent() + Double(milliseconds) / 1000)
        }
    }

    package func block(in modes: [String], _ body: @escaping Action) {
        if modes.count == 1 { return CFRunLoopPerformBlock(loop, Self.mode(modes[0]), body) }
        let strings = modes.map(Self.mode)
        let names = CFArrayCreateMutable(nil, 0, nil)
        for string in strings { CFArrayAppendValue(names, Unmanaged.passUnretained(string).toOpaque()) }
        withExtendedLifetime(strings) { CFRunLoopPerformBlock(loop, names, body) }
    }

    package func blockAndWake(in modes: [String], _ body: @escaping Action) {
        block(in: modes, body)
        wakeUp()
    }

    package func addCommonMode(_ mode: String) { CFRunLoopAddCommonMode(loop, Self.mode(mode)) }

    /// Without the common modes, which a block for them makes a mode.
    package var modes: [String] {
        let modes = CFRunLoopCopyAllModes(loop)
        return (0..<CFArrayGetCount(modes)).compactMap { index in
            Self.name(unsafeBitCast(CFArrayGetValueAtIndex(modes, index), to: CFString.self))
        }.filter { $0 != "kCFRunLoopCommonModes" }.sorted()
    }

    package var currentMode: String? { Self.name(CFRunLoopCopyCurrentMode(loop)) }
    package var hasTimerFireDate: Bool { CFRunLoopGetNextTimerFireDate(loop, kCFRunLoopDefaultMode) != 0 }
    package var isWaiting: Bool { CFRunLoopIsWaiting(loop) }
    package func stop() { CFRunLoopStop(loop) }
    package func wakeUp() { CFRunLoopWakeUp(loop) }

    package func runOnce(_ mode: String, seconds: Double, returnAfterSourceHandled: Bool) -> String {
        switch CFRunLoopRunInMode(Self.mode(mode), seconds, returnAfterSourceHandled) {
        case .finished: "finished"
        case .stopped: "stopped"
        case .timedOut: "timedOut"
        case .handledSource: "handledSource"
        default: "?"
        }
    }
}
