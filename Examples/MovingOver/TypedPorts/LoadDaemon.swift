@preconcurrency import Glibc  // for stderr

@main
struct LoadDaemon {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        do {
            switch arguments.first {
            case "serve": try await serve(every: .seconds(arguments.dropFirst().first.flatMap(Double.init) ?? 1))
            case let count?: try await ask(for: Int(count) ?? 3)
            case nil:
                fputs("usage: loadd-typed serve [SECONDS] | loadd-typed COUNT\n", stderr)
                exit(64)
            }
        } catch {
            fputs("loadd: \(error)\n", stderr)
            exit(1)
        }
    }
}
