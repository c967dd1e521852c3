import Glibc
import RunLoops

/// The variables from the service manager, as the process was started with them.
struct ManagerEnvironment: Sendable {
    private let variables: [String: String]

    init(_ variables: [String: String]) { self.variables = variables }

    /// This process's own.
    init() {
        self.init(
            ManagerVariables.names.reduce(into: [:]) { variables, name in
                variables[name] = getenv(name).map { String(cString: $0) }
            })
    }

    /// A variable's value; nil for a missing or an empty variable.
    subscript(_ name: String) -> String? { variables[name].flatMap { $0.isEmpty ? nil : $0 } }

    /// A variable's value as a number.
    func number<Number: FixedWidthInteger>(_ name: String, in allowed: ClosedRange<Number>) throws(SystemdError)
        -> Number?
    {
        guard let value = self[name] else { return nil }
        guard let number = Number(value), allowed.contains(number) else {
            throw .badVariable(
                name: name, value: value, reason: "it is no number from \(allowed.lowerBound) to \(allowed.upperBound)")
        }
        return number
    }

    /// Whether variables are meant for a process. systemd names the process in a variable beside them.
    func isMeant(for process: pid_t, by name: String) throws(SystemdError) -> Bool {
        try number(name, in: 1...pid_t.max) == process
    }
}
