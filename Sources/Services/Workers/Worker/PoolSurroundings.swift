import Glibc
import Logging
import Ports

/// The log and the folders that the workers of one run of a pool share.
struct PoolSurroundings: Sendable {
    /// The log that has the output of the workers; nil when they inherit their streams.
    let output: OutputLog?
    /// The temporary folders of the workers; nil when they inherit one.
    let folders: WorkerFolders?

    /// - Parameters:
    ///   - logger: The log; nil when the workers inherit their streams.
    ///   - parent: The path of the folder for their folders; nil when they inherit one.
    init(logger: Logger?, foldersInside parent: String?) async throws {
        output = if let logger { try await OutputLog(logger) } else { nil }
        folders = if let parent { try WorkerFolders(inside: parent) } else { nil }
    }

    /// Starts a worker.
    func start(
        _ program: WorkerProcess.Configuration, of name: String, _ nameServer: PortNameServer
    ) throws -> WorkerProcess {
        var program = program
        // The writing ends are open until the worker has them.
        let pipes = try output?.redirect(&program) ?? []
        let folder = try folders?.make()
        let removeFolder: @Sendable () -> Void = { [folders] in if let folder { folders?.remove(folder) } }
        if let folder { program.environment = program.environment.updating(["TMPDIR": folder]) }
        let process: WorkerProcess
        do {
            process = try WorkerProcess.start(program, nameServer: nameServer)
        } catch {
            removeFolder()
            throw error
        }
        process.onExit { _ in removeFolder() }
        do {
            if let endOutput = try output?.read(pipes, of: name, process.pid) { process.onExit { _ in endOutput() } }
        } catch {
            process.send(signal: SIGKILL)
            throw error
        }
        return process
    }

    /// All workers have ended.
    func end() async {
        await folders?.end()
        await output?.end()
    }
}
