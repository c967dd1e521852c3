import Ports

/// The program of a service, its surroundings, and the time that it may do nothing.
struct ServiceFile: Sendable {
    var description = ""
    var program: WorkerProcess.Configuration
    /// The time to take the port.
    var startTime = Duration.seconds(10)
    /// The time to end.
    var stopTime = Duration.seconds(10)
    /// The time without a message after which the service ends; nil for a service that stays.
    var idleTime: Duration?
    var queueLimit = 1000

    /// Reads the text of a service file.
    /// - Throws: ``ServiceFileError``, without a path.
    init(_ text: String) throws(ServiceFileError) {
        program = .init("")
        program.processGroup = .ownSession
        var variables: [String: String?] = [:]
        for assignment in try UnitFile(text).assignments {
            switch (assignment.section, assignment.key) {
            case ("Unit", "Description"): description = assignment.value
            case ("Service", "Environment"):
                for word in try assignment.words {
                    guard let equals = word.firstIndex(of: "="), equals > word.startIndex else {
                        throw assignment.error("“\(word)” is no NAME=VALUE")
                    }
                    variables[String(word[..<equals])] = String(word[word.index(after: equals)...])
                }
            case ("Service", _): try set(assignment)
            case ("Unit", let key):
                throw ServiceFileError(assignment.line, "[Unit] has no key \(key): its only key is Description")
            case (let section, _):
                throw ServiceFileError(
                    assignment.line, "there is no section [\(section)]: the sections are [Unit] and [Service]")
            }
        }
        if program.executable.isEmpty { throw ServiceFileError(nil, "no line says ExecStart=PROGRAM in [Service]") }
        program.environment = .inherit.updating(variables)
    }

    static let keys = [
        "ExecStart", "Environment", "WorkingDirectory", "IdleSec", "TimeoutStartSec", "TimeoutStopSec", "QueueLimit",
        "Nice", "NoNewPrivileges", "LimitAS", "LimitCPU", "LimitNOFILE", "LimitFSIZE", "LimitCORE",
    ]

    private mutating func set(_ assignment: UnitFile.Assignment) throws(ServiceFileError) {
        switch assignment.key {
        case "ExecStart":
            if !program.executable.isEmpty { throw assignment.error("a service has one program") }
            let words = try assignment.words
            guard let executable = words.first, executable.first == "/" else {
                throw assignment.error("the program has to be an absolute path, and not “\(words.first ?? "")”")
            }
            (program.executable, program.arguments) = (executable, Array(words.dropFirst()))
        case "WorkingDirectory":
            guard assignment.value.first == "/" else {
                throw assignment.error("the folder has to be an absolute path, and not “\(assignment.value)”")
            }
            program.workingDirectory = assignment.value
        case "IdleSec": idleTime = try assignment.time
        case "TimeoutStartSec": startTime = try assignment.time ?? .seconds(1 << 31)
        case "TimeoutStopSec": stopTime = try assignment.time ?? .seconds(1 << 31)
        case "QueueLimit": queueLimit = try assignment.number(in: 1...Int(Int32.max) - 1)
        case "Nice": program.niceness = try assignment.number(in: -20...19)
        case "NoNewPrivileges": program.mayGainPrivileges = !(try assignment.flag)
        case "LimitAS": program.limits.addressSpace = try assignment.size
        case "LimitCPU": program.limits.processorTime = try assignment.time
        case "LimitNOFILE": program.limits.openFiles = try assignment.size
        case "LimitFSIZE": program.limits.fileSize = try assignment.size
        case "LimitCORE": program.limits.coreSize = try assignment.size
        default:
            throw ServiceFileError(
                assignment.line,
                "[Service] has no key \(assignment.key); the keys are \(Self.keys.joined(separator: ", "))")
        }
    }
}
