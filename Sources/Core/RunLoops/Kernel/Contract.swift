/// Stops the process when a caller has broken a contract, and prints the reason, also in a release build.
@inline(__always)
package func contract(
    _ isKept: Bool, _ reason: @autoclosure () -> String, file: StaticString = #fileID, line: UInt = #line
) {
    if !isKept { contractBroken(reason(), file: file, line: line) }
}

package func contractBroken(_ reason: String, file: StaticString = #fileID, line: UInt = #line) -> Never {
    fatalError(reason, file: file, line: line)
}
