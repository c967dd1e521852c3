import Ports
import RunLoopLocks

/// Sends the elements of a sequence to an asker's port. A batch is sent when the port has had room for the batch
/// before. So the first element is sent at once, and a fast sequence sends many elements in a message.
final class StreamWriter: Sendable {
    private struct State {
        var batch = StreamBatch()
        /// Whether the batch takes no more elements before it is sent, full or not.
        var mustEmpty = false
        var isEnded = false
        /// Why nothing more can be sent.
        var failure: (any Error)?
        var producer: CheckedContinuation<Void, Never>?
        var sender: CheckedContinuation<Void, Never>? { didSet { senderWaits = sender != nil } }
        /// For a look at each element: the size of a continuation is not known to the compiler, and a look at one is a call.
        private(set) var senderWaits = false

        var isFull: Bool { batch.isFull || mustEmpty }
    }

    private let reader: StreamReader
    private let coder: any MessageCoder
    private let limit: Int
    private let state = Lock(State())

    init(to reader: StreamReader, _ coder: any MessageCoder) {
        self.reader = reader
        self.coder = coder
        // The rest of the message's limit is for the sizes of the components.
        limit = reader.right.messageLimit - 8 * Attachments.largestCount
    }

    /// Nothing more can be sent. The reason is the error that ``StreamReader/send(_:)`` has thrown.
    struct SendFailed: Error {
        let reason: any Error
    }

    /// Sends all elements, and waits until they have found room at the port.
    /// - Throws: The sequence's error, when all elements before have been sent; ``SendFailed``.
    func send<Elements: AsyncSequence & Sendable>(all elements: Elements) async throws
    where Elements.Element: Encodable & Sendable {
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.sendBatches() }
            var failure: (any Error)?
            do {
                for try await element in elements { while try !append(element) { try await room() } }
            } catch {
                failure = error
            }
            change { $0.isEnded = true }
            try await group.waitForAll()
            if let failure { throw failure }
        }
    }

    /// Not an asynchronous function: most elements find room, and a task's frames would take longer than the element.
    /// - Returns: Whether there was room for the element.
    private func append(_ element: some Encodable) throws -> Bool {
        let (isAppended, wakesSender) = try state.withLock { state in
            if let failure = state.failure { throw failure }
            if state.isFull { return (false, false) }
            do {
                // The element is encoded under the lock, for which only this stream's sender waits.
                try state.batch.append(element, coder, limit: limit)
                return (true, state.senderWaits)
            } catch {
                // The element may fit into the next batch, which then has room for more bytes and attachments.
                if state.batch.isEmpty { throw error }
                state.mustEmpty = true
                return (false, state.senderWaits)
            }
        }
        if wakesSender { state.withLock { $0.sender.take() }?.resume() }
        return isAppended
    }

    /// Waits until the full batch has gone.
    private func room() async throws {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    let mustWait = state.isFull && state.failure == nil && !Task.isCancelled
                    if mustWait { state.producer = continuation }
                    return mustWait
                }
                if !mustWait { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.producer.take() }?.resume()
        }
        try Task.checkCancellation()
    }

    private func sendBatches() async throws {
        do {
            while let batch = await nextBatch() { try await reader.send(batch.message) }
        } catch {
            let failure = SendFailed(reason: error)
            change { $0.failure = failure }
            throw failure
        }
    }

    /// Waits for elements; nil after the last.
    private func nextBatch() async -> StreamBatch? {
        while true {
            let (batch, isEnded, producer) = state.withLock { state in
                let batch = state.batch
                if !batch.isEmpty { (state.batch, state.mustEmpty) = (StreamBatch(), false) }
                return (batch, state.isEnded, state.producer.take())
            }
            producer?.resume()
            if !batch.isEmpty { return batch }
            if isEnded { return nil }
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    let mustWait = state.batch.isEmpty && !state.isEnded
                    if mustWait { state.sender = continuation }
                    return mustWait
                }
                if !mustWait { continuation.resume() }
            }
        }
    }

    /// Changes the state, and wakes the sender. After a failure, it also wakes the producer.
    @discardableResult
    private func change<Result>(_ change: (inout State) throws -> sending Result) rethrows -> Result {
        let (result, sender, producer) = try state.withLock { state in
            let result = try change(&state)
            return (result, state.sender.take(), state.failure == nil ? nil : state.producer.take())
        }
        sender?.resume()
        producer?.resume()
        return result
    }
}
