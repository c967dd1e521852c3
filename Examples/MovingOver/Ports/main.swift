@preconcurrency import Glibc  // for stderr

let arguments = CommandLine.arguments.dropFirst()
do {
    switch arguments.first {
    case "serve": try serve(every: .seconds(arguments.dropFirst().first.flatMap(Double.init) ?? 1))
    case let count?: try ask(for: Int(count) ?? 3)
    case nil:
        fputs("usage: loadd-ports serve [SECONDS] | loadd-ports COUNT\n", stderr)
        exit(64)
    }
} catch {
    fputs("loadd: \(error)\n", stderr)
    exit(1)
}
