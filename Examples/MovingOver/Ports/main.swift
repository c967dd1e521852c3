import Glibc

let arguments = CommandLine.arguments.dropFirst()
do {
    switch arguments.first {
    case "serve": try serve(every: .seconds(arguments.dropFirst().first.flatMap(Double.init) ?? 1))
    case let count?: try ask(for: Int(count) ?? 3)
    case nil: print("usage: loadd-ports serve [SECONDS] | loadd-ports COUNT")
    }
} catch {
    print("loadd: \(error)")
    exit(1)
}
