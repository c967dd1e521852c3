@preconcurrency import Glibc  // for stderr
import NotesRequests
import TypedPorts

@main
struct Client {
    static func main() async {
        let words = Array(CommandLine.arguments.dropFirst())
        let notes = RequestClient(serviceName)
        if (try? await RemoteMessagePort(name: serviceName)) == nil {
            fputs("notes: no daemon is running; waiting for one\n", stderr)
        }
        do {
            if words == ["--follow"] {
                for try await note in notes.stream(NewNotes()) { print("new: \(note)") }
            } else if words.isEmpty {
                for note in try await notes.request(AllNotes(), timeout: .seconds(10)) { print(note) }
            } else {
                let request = Add(words.joined(separator: " "))
                print("note \(try await notes.request(request, timeout: .seconds(10)))")
            }
        } catch Add.Failure.noteIsEmpty {
            fputs("notes: the note is empty\n", stderr)
            exit(1)
        } catch {
            fputs("notes: \(error)\n", stderr)
            exit(1)
        }
    }
}
