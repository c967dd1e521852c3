/// Splits so many pieces of work into parts of one to some hundred, so that who serves them falls asleep often. Other
/// threads get other parts.
package func bursts(of count: Int, thread: Int, most: Int = 211) -> [Int] {
    var (parts, left, burst) = ([] as [Int], count, thread + 1)
    while left > 0 {
        burst = burst * 31 % most + 1
        parts.append(min(burst, left))
        left -= min(burst, left)
    }
    return parts
}
