import Glibc

// swift-format-ignore: AlwaysUseLowerCamelCase
/// The time since the system's start, without the time that it slept, in nanoseconds.
public func mach_absolute_time() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// The fraction that turns what ``mach_absolute_time()`` returns into nanoseconds.
public struct mach_timebase_info_data_t: Sendable {
    /// The numerator.
    public var numer: UInt32
    /// The denominator.
    public var denom: UInt32

    /// A fraction.
    public init(numer: UInt32 = 0, denom: UInt32 = 0) { (self.numer, self.denom) = (numer, denom) }
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// Makes a fraction: on macOS, the type has this name, too.
public func mach_timebase_info(numer: UInt32 = 0, denom: UInt32 = 0) -> mach_timebase_info_data_t {
    mach_timebase_info_data_t(numer: numer, denom: denom)
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// Sets the fraction, which is one here. Returns 0.
@discardableResult
public func mach_timebase_info(_ info: UnsafeMutablePointer<mach_timebase_info_data_t>) -> Int32 {
    info.pointee = mach_timebase_info_data_t(numer: 1, denom: 1)
    return 0
}
