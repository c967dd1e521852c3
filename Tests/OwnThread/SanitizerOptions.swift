import Foundation

/// What other processes of the tests need in their environment to be sanitized as this one is, by name.
public let sanitizerOptions = ProcessInfo.processInfo.environment.filter { $0.key.hasSuffix("SAN_OPTIONS") }
