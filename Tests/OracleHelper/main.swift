import Glibc
import Oracle
import RunLoops

// Plays generated scripts on both loops: OracleHelper main|secondary <first seed> <count> <seconds>.
// Foundation's loop does not give back all it takes, so each process plays but a few hundred.

let arguments = CommandLine.arguments
guard arguments.count == 5, let first = UInt64(arguments[2]), let count = UInt64(arguments[3]),
    let seconds = Int(arguments[4]), ["main", "secondary"].contains(arguments[1])
else {
    print("usage: OracleHelper main|secondary <first seed> <count> <seconds>")
    exit(64)
}
// Whatever becomes of the test, nothing is left behind.
alarm(UInt32(seconds) + 120)

var tally = Tally()
tally.play(first..<(first + count), onMain: arguments[1] == "main", until: .now + .seconds(seconds))
print("\(tally.equal) \(tally.parted) \(tally.retried) \(tally.different)")
