/// A program whose standard streams are files. No amount of output blocks it, and no other process holds them open.
package struct Run: Sendable {
    package let child: Child
    private let files = TemporaryFolder()

    package init(
        _ words: [String], environment: [String: String] = [:], in folder: String = "/", input: [UInt8] = []
    ) {
        files.write(input, to: "in")
        let shell = #"exec <"$0/in" >"$0/out" 2>"$0/errors"; cd "$1" && shift && exec "$@""#
        child = Child(["/bin/sh", "-c", shell, files.path, folder] + words, environment: environment)
    }

    /// What it has written so far.
    package var output: [UInt8] { files.contents(of: "out") }
    package var errors: [UInt8] { files.contents(of: "errors") }
}
