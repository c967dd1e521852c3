@preconcurrency import CoreFoundation
import RunLoopLocks

/// The info that a program gives to the callbacks of an object, with the functions that keep the info.
final class ContextInfo: @unchecked Sendable {
    // Sound: what changes is behind the lock. The functions are the program's, which has to expect any thread.
    private let state: Lock<CFMessagePortContext>

    init(_ context: CFMessagePortContext) { state = Lock(context) }

    /// Retains the info of a context of another class, which has the same fields.
    convenience init<Context>(_ context: UnsafePointer<Context>?) {
        self.init(context.map { unsafeBitCast($0.pointee, to: CFMessagePortContext.self) } ?? CFMessagePortContext())
        retain()
    }

    /// Retains the info. An object that is not made leaves the info to its caller.
    func retain() {
        state.withLock { context in
            if let retain = context.retain { context.info = retain(context.info).map { .init(mutating: $0) } }
        }
    }

    /// The context. Its `info` is nil after the object has ended.
    var context: CFMessagePortContext { state.withLock { $0 } }

    /// The context for another class.
    func copy<Context>(to context: UnsafeMutablePointer<Context>) {
        context.pointee = unsafeBitCast(self.context, to: Context.self)
    }

    /// Calls with the info, which is retained for the call, because an invalidation on another thread may release it.
    func use<Result>(_ body: (_ info: UnsafeMutableRawPointer?) -> Result) -> Result {
        let context = context
        let info = context.retain.map { $0(context.info).map { .init(mutating: $0) } } ?? context.info
        defer { if context.retain != nil { context.release?(info) } }
        return body(info)
    }

    /// Takes the info, hands it over, and releases it.
    func end(_ body: (_ info: UnsafeMutableRawPointer?) -> Void = { _ in }) {
        let (info, release) = state.withLock { context in
            defer { context.info = nil }
            return (context.info, context.release)
        }
        body(info)
        release?(info)
    }

    /// The callback's address, and what the program says of the info.
    func description<CallBack>(calling callBack: CallBack?) -> String {
        let context = context
        let address = callBack.map { unsafeBitCast($0, to: UnsafeRawPointer.self) }
        var shown = context.info.map { "\($0)" } ?? "(null)"
        if let info = context.info, let text = context.copyDescription?(info)?.takeRetainedValue() {
            shown = String(text)
        }
        return "callout = \(address.map { "\($0)" } ?? "(null)"), context = \(shown)"
    }
}
