import Foundation
import Oracle
import RunLoops

// Plays generated scripts on both loops: OracleHelper main|secondary <first seed> <count> <seconds>. The last line it
// prints is the tally as JSON. With a count of 1 it prints the script before.
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

let onMain = arguments[1] == "main"
if count == 1 { print(GeneratedScript(seed: first, onMain: onMain)) }
var tally = Tally()
tally.play(first..<(first + count), onMain: onMain, until: .now + .seconds(seconds))
print(String(decoding: try JSONEncoder().encode(tally), as: UTF8.self))
