import Foundation
import OwnThread
import TestSupport
import Testing

/// The page on the wire format says enough for a client in another language.
@Suite(.ownThread) struct WireFormatTests {
    private let folder = TemporaryFolder()

    private static let client = Repository.root.appendingPathComponent("Examples/PythonClient/client.py").path
    private static let hasPython = Run(["python3", "--version"]).child.wait() == 0

    private func ask(_ word: String) -> Run {
        Run(["python3", Self.client, word], environment: ["PORTS_DIRECTORY": folder.path])
    }

    @Test(.enabled(if: hasPython, "there is no python3"))
    func `a client in Python gets the replies and the failures of a typed server`() {
        let nobody = ask("port")
        #expect(nobody.child.wait() == 1)
        #expect(
            String(decoding: nobody.errors, as: UTF8.self)
                == "nobody has the name com.example.dictionary in \(folder.path)\n")

        let server = Run(["\(Child.folder)/dictionary", "serve"], environment: ["PORTS_DIRECTORY": folder.path])
        let entry = "\(folder.path)/names/com.example.dictionary"
        #expect(waitUntil { FileManager.default.fileExists(atPath: entry) })
        let found = ask("port")
        #expect(found.child.wait() == 0)
        #expect(String(decoding: found.output, as: UTF8.self) == "where messages arrive\n")
        #expect(found.errors == [])
        let unknown = ask("prot")
        #expect(unknown.child.wait() == 1)
        #expect(String(decoding: unknown.errors, as: UTF8.self) == "the request has failed: unknownWord(\"prot\")\n")

        server.child.signal(SIGTERM)
        #expect(server.child.wait() == 0)
        // Nothing that the clients did was worth a line.
        #expect(server.errors == [])
    }
}
