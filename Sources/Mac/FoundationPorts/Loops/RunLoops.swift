import CoreFoundation
import Foundation

// Members of Foundation's loops that only macOS has.

extension RunLoop {
    /// The CFRunLoop. The corresponding method is NSRunLoop's `getCFRunLoop`.
    public func getCFRunLoop() -> CFRunLoop {
        if let main = CFRunLoopGetMain(), self === RunLoop.main { return main }
        if let current = CFRunLoopGetCurrent(), self === RunLoop.current { return current }
        // Foundation has no accessor for another thread's.
        let storage = Mirror(reflecting: self).children.first { $0.label == "_cfRunLoopStorage" }
        guard let storage, case let object as AnyObject = storage.value, CFGetTypeID(object) == CFRunLoopGetTypeID()
        else {
            preconditionFailure(
                "this Foundation does not show the CFRunLoop of another thread: add the port on the loop's own thread")
        }
        return Unmanaged<CFRunLoop>.fromOpaque(Unmanaged.passUnretained(object).toOpaque()).takeUnretainedValue()
    }
}

extension RunLoop.Mode {
    /// The mode's name in CFRunLoop, which knows these two by their addresses.
    var cfMode: CFRunLoopMode {
        switch self {
        case .default: kCFRunLoopDefaultMode
        case .common: kCFRunLoopCommonModes
        default: rawValue.cfString
        }
    }
}
