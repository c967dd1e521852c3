import Glibc

@main
struct LoadDaemon {
    static func main() async {
        let arguments = CommandLine.arguments.dropFirst()
        do {
            switch arguments.first {
            case "serve": try await serve(every: .seconds(arguments.dropFirst().first.flatMap(Double.init) ?? 1))
            case let count?: try await ask(for: Int(count) ?? 3)
            case nil: print("usage: loadd-typed serve [SECONDS] | loadd-typed COUNT")
            }
        } catch {
            print("loadd: \(error)")
            exit(1)
        }
    }
}
