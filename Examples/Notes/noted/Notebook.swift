import NotesRequests

/// The notes, and who reads the new ones.
actor Notebook {
    private(set) var notes: [String] = []
    private var readers: [AsyncStream<String>.Continuation] = []

    func add(_ text: String) throws -> Int {
        if text.isEmpty { throw Add.Failure.noteIsEmpty }
        notes.append(text)
        for reader in readers { reader.yield(text) }
        return notes.count
    }

    func newNotes() -> AsyncStream<String> {
        let (stream, reader) = AsyncStream.makeStream(of: String.self, bufferingPolicy: .bufferingNewest(100))
        readers.append(reader)
        return stream
    }

    /// Ends the streams of all readers.
    func close() {
        for reader in readers { reader.finish() }
    }
}
