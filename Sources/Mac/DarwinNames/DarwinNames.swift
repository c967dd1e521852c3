// Names of Darwin and Objective-C, for files from macOS that use them and import this module. A module of their own keeps
// them out of other programs.

/// The type of the ids of messages in Apple's documentation.
public typealias SInt32 = Int32

extension Bool {
    /// The value itself: on macOS, a flag that a C function sets is no `Bool`.
    public var boolValue: Bool { self }
}

/// Calls the body, because there is no autorelease pool on Linux.
///
/// - Parameter body: The closure to call.
/// - Returns: What the closure returns.
/// - Throws: What the closure throws.
public func autoreleasepool<Result, Failure: Error>(
    invoking body: () throws(Failure) -> Result
) throws(Failure) -> Result {
    try body()
}
