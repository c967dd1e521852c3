import Activation
import Glibc

/// A service starts with the first request, ends when it has nothing to do, and starts again. The activator is a part of this
/// program; for a user's services it is the command `portctl activate`.
@main enum OnDemand {
    static func main() async throws {
        if CommandLine.arguments.dropFirst().first == "serve" { return await Greeter.main() }
        let folder = try makeFolder()
        defer { removeFolder(folder) }
        let activator = try Activator(folder: folder, logs: folder)
        async let running: Void = activator.run()
        let greeter = RequestClient(Greeter.serviceName)
        let services = ActivatorClient()
        for name in ["Ada", "Alan"] {
            print(try await state(of: services))
            print(try await greeter.request(Greet(name: name)))
            print(try await state(of: services))
            while try await services.services().first?.phase != .waiting {
                try await Task.sleep(for: .milliseconds(10))
            }
        }
        activator.stop()
        try await running
    }

    static func state(of services: ActivatorClient) async throws -> String {
        while let service = try await services.services().first {
            if case .starting = service.phase {
                // The activator may hear of the start after the asker has its reply.
                try await Task.sleep(for: .milliseconds(10))
                continue
            }
            return "\(service.name) is \(service.phase.word). Starts: \(service.startCount)."
        }
        return "There is no service."
    }

    /// Makes the folder of a user's services, with one.
    static func makeFolder() throws -> String {
        var template = Array("/tmp/on-demand-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw ServiceFolderError() }
        let folder = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        let file = fopen("\(folder)/\(Greeter.serviceName).service", "w")
        fputs("[Service]\nExecStart=/proc/self/exe serve\nIdleSec=1\n", file)
        fclose(file)
        return folder
    }

    static func removeFolder(_ folder: String) {
        for name in [".service", ".log"] { unlink("\(folder)/\(Greeter.serviceName)\(name)") }
        rmdir(folder)
    }

    struct ServiceFolderError: Error {}
}
