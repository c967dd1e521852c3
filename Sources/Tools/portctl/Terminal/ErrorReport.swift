import Glibc
import RunLoops

/// An error that only a command can have. Its text has the remedy.
protocol Problem: Error, CustomStringConvertible {}

extension RunLoopError: Problem {}

func report(_ error: some Error) { report("\(error)") }
func report(_ text: String) { print("portctl: \(text.escaped)", to: STDERR_FILENO) }
