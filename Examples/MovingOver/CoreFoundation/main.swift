import Foundation

let arguments = CommandLine.arguments.dropFirst()
switch arguments.first {
case "serve": serve(every: arguments.dropFirst().first.flatMap(TimeInterval.init) ?? 1)
case let count?: ask(for: Int(count) ?? 3)
case nil:
    fputs("usage: loadd-cf serve [SECONDS] | loadd-cf COUNT\n", stderr)
    exit(64)
}
