import Ports
import RunLoopLocks
import RunLoops

/// A registered name, and its owner's answer.
package struct PortReport: Sendable {
    /// The reason why there is no answer.
    package enum Failure: Sendable {
        /// The owner has not answered in time.
        case silent
        /// The owner's process is stopped.
        case stopped
        /// The owner answers as many others as it takes.
        case busy
        /// This process lacks something that it needs to ask.
        case unasked(PortError)
        /// The port has ended, perhaps.
        case other
    }

    package let registration: PortNameServer.Registration
    package let answer: Result<PortInfo, Failure>
    /// The time of the answer, or of the end of the wait.
    package let time = MonotonicInstant.now

    /// Nil without an answer.
    package var info: PortInfo? { if case .success(let info) = answer { info } else { nil } }
    package var statistics: PortStatistics? { info?.statistics }
    package var failure: Failure? { if case .failure(let failure) = answer { failure } else { nil } }

    package var condition: PortInfo.Condition {
        switch answer {
        case .success(let info): info.condition
        case .failure(.silent): .silent
        case .failure(.stopped): .stopped
        case .failure: .unknown
        }
    }

    /// Whether messages are taken, perhaps too slowly, as far as the owner says.
    package var isServed: Bool {
        switch answer {
        case .success(let info): info.condition != .stuck && info.condition != .unserved
        case .failure(.busy): true
        case .failure: false
        }
    }

    /// Asks all owners at the same time, so that an owner that does not answer delays no other.
    /// - Parameter timeout: The time for an answer after the observation. An owner of many names gets more.
    package static nonisolated(nonsending) func all(
        of registrations: [PortNameServer.Registration], from names: PortNameServer, observing duration: Duration,
        timeout: Duration
    ) async -> [PortReport] {
        @Sendable func ask(
            _ registration: PortNameServer.Registration, isConfirmed: Bool, _ answers: SharedAnswerPort
        ) async -> PortReport {
            await PortReport(
                registration, from: names, isConfirmed: isConfirmed, observing: duration, timeout: timeout,
                answerAt: answers)
        }
        return await withTaskGroup(of: [PortReport].self) { group in
            for ofOwner in Dictionary(grouping: registrations, by: \.port.id.incarnation).values {
                group.addTask { await ofOneOwner(ofOwner, ask) }
            }
            return await group.reduce(into: []) { $0 += $1 }.sorted { $0.registration.name < $1.registration.name }
        }
    }

    /// Few questions at a time, because each takes connections of both sides, and an owner answers a bounded number. After
    /// an owner was silent once, no other question waits for it.
    private static func ofOneOwner(
        _ registrations: [PortNameServer.Registration],
        _ ask: @escaping @Sendable (PortNameServer.Registration, Bool, SharedAnswerPort) async -> PortReport
    ) async -> [PortReport] {
        let waiting = Waiting(registrations)
        @Sendable func askAll() async -> [PortReport] {
            let answers = SharedAnswerPort()
            var reports: [PortReport] = []
            var isConfirmed = false
            while let next = waiting.next() {
                let report = await ask(next, isConfirmed, answers)
                if report.info != nil { isConfirmed = true }
                reports.append(report)
                switch report.failure {
                case .silent, .stopped:
                    reports += waiting.rest().map { PortReport(registration: $0, answer: report.answer) }
                default: break
                }
            }
            return reports
        }
        return await withTaskGroup(of: [PortReport].self) { group in
            for _ in 0..<min(32, registrations.count) { group.addTask { await askAll() } }
            return await group.reduce(into: []) { $0 += $1 }
        }
    }

    /// The names whose owner was not asked yet.
    private final class Waiting: Sendable {
        private let registrations: Lock<ArraySlice<PortNameServer.Registration>>

        init(_ registrations: [PortNameServer.Registration]) { self.registrations = Lock(registrations[...]) }

        func next() -> PortNameServer.Registration? { registrations.withLock { $0.popFirst() } }
        func rest() -> ArraySlice<PortNameServer.Registration> { registrations.withLock { exchange(&$0, with: []) } }
    }

    /// Asks the owner of a name.
    /// - Parameter isConfirmed: Whether the owner has answered for another of its names. Then the entry need not be read
    ///   and checked again, and the process is taken to run.
    package nonisolated(nonsending) init(
        _ registration: PortNameServer.Registration, from names: PortNameServer, isConfirmed: Bool = false,
        observing duration: Duration, timeout: Duration, answerAt shared: SharedAnswerPort? = nil
    ) async {
        let isStopped = !isConfirmed && ProcessStatus.isStopped(registration.pid)
        // A stopped process gets little time, but it may continue.
        let deadline = ContinuousClock.now + (isStopped ? .milliseconds(300) : duration + timeout)
        let answer: Result<PortInfo, Failure>
        do {
            let right =
                isConfirmed
                ? names.right(of: registration)
                : try await names.port(forName: registration.name, before: deadline)
            answer = .success(try await right.info(observing: duration, before: deadline, answerAt: shared))
        } catch let error as PortError {
            switch error {
            case .busy: answer = .failure(.busy)
            case .receiveTimedOut, .cannotConnect:
                answer = .failure(isStopped || ProcessStatus.isStopped(registration.pid) ? .stopped : .silent)
            case .outOfDescriptors, .outOfSockets, .runLoop, .transport, .directory: answer = .failure(.unasked(error))
            default: answer = .failure(.other)
            }
        } catch {
            answer = .failure(.other)
        }
        self.init(registration: registration, answer: answer)
    }

    private init(registration: PortNameServer.Registration, answer: Result<PortInfo, Failure>) {
        (self.registration, self.answer) = (registration, answer)
    }
}

extension PortReport.Failure: Error {}
