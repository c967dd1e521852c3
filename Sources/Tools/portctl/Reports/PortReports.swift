import Glibc
import Ports
import PortsInspection
import RunLoops

extension PortNameServer {
    /// Whether the directory is not there, and could be made. A command that looks does not make it.
    var isMissing: Bool {
        var status = stat()
        guard path.hasPrefix("/"), path.utf8.count <= Self.longestPath, lstat(path, &status) != 0, errno == ENOENT
        else {
            return false
        }
        return access(String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)]) + "/", W_OK | X_OK) == 0
    }

    /// The names of the directory; empty when the directory does not exist.
    func found(includingInternal: Bool = false) throws(PortError) -> [Registration] {
        isMissing ? [] : try registrations(includingInternal: includingInternal)
    }

    /// Somebody has the name.
    func found(_ name: String) throws(PortError) -> Registration {
        guard !isMissing, let found = try registration(forName: name) else {
            throw PortError.nameNotFound(name, directory: path)
        }
        return found
    }
}

extension PortNameServer.Registration: Encodable {
    private enum CodingKeys: CodingKey {
        case name, pid, program, uid, since, port, queueLimit, byteLimit, messageLimit
    }

    /// Encodes the facts as `portctl list --json` shows them.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(name, forKey: .name)
        try container.encode(pid, forKey: .pid)
        try container.encodeIfPresent(program, forKey: .program)
        try container.encode(uid, forKey: .uid)
        try container.encode(time(since, isUTC: true), forKey: .since)
        try container.encode("\(port.id)", forKey: .port)
        try container.encode(queueLimit, forKey: .queueLimit)
        try container.encodeIfPresent(byteLimit, forKey: .byteLimit)
        try container.encode(messageLimit, forKey: .messageLimit)
    }

    var shownProgram: String { program.map(\.escaped) ?? "?" }
}

extension PortReport: Encodable {
    private enum CodingKeys: CodingKey { case waiting, received, state, trouble, info }

    package func encode(to encoder: any Encoder) throws {
        try registration.encode(to: encoder)
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encodeIfPresent(statistics?.waiting, forKey: .waiting)
        try container.encodeIfPresent(statistics?.received, forKey: .received)
        try container.encode(condition, forKey: .state)
        try container.encodeIfPresent(trouble?.text, forKey: .trouble)
        try container.encodeIfPresent(info, forKey: .info)
    }
}

extension PortReport {
    /// Asks the owners of all names at the same time.
    /// - Parameter needsAnswers: False for a command that has something to show without answers.
    /// - Throws: `PortError`, when this process lacks what it needs to ask any of them.
    static func all(
        _ registrations: [PortNameServer.Registration], observing duration: Duration = .milliseconds(200),
        timeout: Duration = .seconds(2), needsAnswers: Bool = true
    ) throws -> [PortReport] {
        let reports = try awaited {
            await PortReport.all(of: registrations, from: .shared, observing: duration, timeout: timeout)
        }
        // Nothing is known of the owners then.
        if needsAnswers, let failure = reports.first?.ownFailure, reports.allSatisfy({ $0.ownFailure != nil }) {
            throw failure
        }
        return reports
    }

    /// The trouble of a named port, and the sender of the messages that wait; nil for none.
    static func trouble(of name: String) async -> String? {
        guard let found = try? PortNameServer.shared.registration(forName: name) else { return nil }
        let report = await PortReport(
            found, from: .shared, observing: .milliseconds(300), timeout: .milliseconds(1700))
        return report.troubleWithSender
    }

    /// The lack of this process that prevents the question, such as a lack of descriptors.
    var ownFailure: PortError? { if case .unasked(let error)? = failure { error } else { nil } }

    /// The condition in a word.
    var state: String { condition.rawValue }

    /// Troubles come first.
    var rank: Int { trouble == nil ? 2 : isServed ? 1 : 0 }

    /// The oldest message in a handler.
    var handling: String? {
        func text(
            _ name: String?, _ id: UInt32, _ program: String?, _ pid: Int32, _ age: Duration, isOlder: Bool = false,
            origin: String? = nil
        ) -> String {
            let sender =
                origin ?? program.map { "\($0) (pid \(pid))" } ?? (pid > 0 ? "process \(pid)" : "an unknown sender")
            let time = age < .milliseconds(1) && !isOlder ? "just now" : (isOlder ? "at least " : "") + readable(age)
            return "\(name ?? "id \(id)") of \(sender), \(time)"
        }
        if let message = info?.handling.first {
            return text(
                message.name, message.id, message.program, message.pid, message.age, isOlder: message.isOlder)
        }
        return info?.requests.oldest.first { !$0.mayLast }.map {
            text($0.name, $0.id, $0.program, $0.pid, $0.age, origin: $0.origin)
        }
    }
}
