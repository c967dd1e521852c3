import Glibc

/// Ends a helper program, with the reason on the standard error.
package func fail(_ reason: String, status: Int32 = 70) -> Never {
    let line = Array("helper \(CommandLine.arguments.dropFirst().joined(separator: " ")): \(reason)\n".utf8)
    _ = write(STDERR_FILENO, line, line.count)
    exit(status)
}

/// Ends a helper program unless the condition holds.
package func check(_ condition: Bool, _ reason: @autoclosure () -> String) {
    if !condition { fail(reason()) }
}
