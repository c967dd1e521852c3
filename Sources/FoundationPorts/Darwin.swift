// What files written on macOS have from Darwin and Objective-C.

/// The number of a port: see ``NSMachPort/machPort``.
public typealias mach_port_t = UInt32

/// Calls the body. There is no autorelease pool on Linux.
public func autoreleasepool<Result, Failure: Error>(
    invoking body: () throws(Failure) -> Result
) throws(Failure) -> Result {
    try body()
}
