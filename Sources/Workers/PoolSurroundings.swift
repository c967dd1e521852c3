/// The log and the folders that the workers of one run of a pool share.
struct PoolSurroundings: Sendable {
    /// The log that has the output of the workers; nil when they inherit their streams.
    let output: OutputLog?
    /// The temporary folders of the workers; nil when they inherit one.
    let folders: WorkerFolders?

    init(_ options: WorkerPool.Options) async throws {
        output = if case .log(let logger) = options.output { try await OutputLog(logger) } else { nil }
        folders = if case .own(let parent) = options.temporaryFolder { try WorkerFolders(inside: parent) } else { nil }
    }

    /// All workers have ended.
    func end() async {
        await folders?.end()
        await output?.end()
    }
}
