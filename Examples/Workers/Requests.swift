import TypedPorts

/// Asks for the number of primes below a limit.
struct CountPrimes: PortRequest {
    typealias Reply = Int
    var below: Int
}
