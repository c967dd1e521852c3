extension WorkerProcess {
    /// A program and the surroundings that it starts in. A literal is the path of a program without arguments. The
    /// names are swift-subprocess's, where it has them.
    public struct Configuration: Sendable, Hashable, ExpressibleByStringLiteral {
        /// The path of the program. `/proc/self/exe` is this program. A relative path starts at ``workingDirectory``.
        public var executable: String
        /// The arguments, without the program's name.
        public var arguments: [String]
        /// The environment. The worker also gets the variables for its check-in.
        public var environment: Environment
        /// The worker's first working directory; nil for this process's.
        public var workingDirectory: String?
        /// The stream that the worker reads as its standard input.
        public var standardInput: Stream
        /// The stream that the worker writes its output to.
        public var standardOutput: Stream
        /// The stream that the worker writes its errors to.
        public var standardError: Stream
        /// The process group, to which a terminal or a service manager sends signals. The default is this process's.
        public var processGroup = ProcessGroup.inherited
        /// Whether the kernel kills the worker when this process ends, however it ends. The default is false. The rest of
        /// a process group of the worker's own is killed, too, and also when the worker ends first.
        public var endsWithLauncher = false
        /// Whether a worker with a process group of its own is killed when this process ends before
        /// `WorkerProcess.outlivesLauncher()`.
        package var endsWithLauncherAtFirst = false
        /// The kernel's limits of the worker. The default is this process's.
        public var limits = Limits()
        /// Added to this process's niceness, at most up to 19. Without privileges, it cannot be negative.
        public var niceness = 0
        /// Whether programs that the worker runs may have more privileges than it has, as `sudo` does.
        public var mayGainPrivileges = true
        /// The folder of a control group, to which this process may write; nil for this process's. It must be empty of
        /// other groups.
        public var controlGroup: String?
        /// The program's name in `ps`, in place of its path; nil for the path. The program sees it as its first argument.
        package var title: String?
        /// Whether the launcher gets to know at once that the worker crashes, if the worker calls ``CrashReport/begin()``.
        package var reportsCrashes = false

        /// Makes a configuration. The program shares this process's surroundings unless told otherwise, but gets no
        /// descriptors except its standard streams.
        public init(
            _ executable: String, _ arguments: [String] = [], environment: Environment = .inherit,
            workingDirectory: String? = nil, standardInput: Stream = .inherit, standardOutput: Stream = .inherit,
            standardError: Stream = .inherit
        ) {
            self.executable = executable
            self.arguments = arguments
            self.environment = environment
            self.workingDirectory = workingDirectory
            self.standardInput = standardInput
            self.standardOutput = standardOutput
            self.standardError = standardError
        }

        /// The program at a path.
        public init(stringLiteral path: String) { self.init(path) }
    }
}

extension WorkerProcess.Configuration {
    /// The variables of a worker's environment.
    public struct Environment: Sendable, Hashable {
        let isInherited: Bool
        /// A variable without a value is removed.
        let changes: [String: String?]

        /// This process's environment, at the worker's start, without the variables that a service manager such as systemd
        /// sets for this process alone: `NOTIFY_SOCKET`, `LISTEN_FDS`, `MAINPID`, `WATCHDOG_USEC` and those beside them.
        /// ``updating(_:)`` can give them to the worker.
        public static let inherit = Environment(isInherited: true, changes: [:])

        /// These variables, and no others.
        public static func custom(_ variables: [String: String]) -> Environment {
            Environment(isInherited: false, changes: variables)
        }

        /// The environment with other values for these variables; nil removes a variable.
        public func updating(_ values: [String: String?]) -> Environment {
            Environment(isInherited: isInherited, changes: changes.merging(values) { $1 })
        }
    }

    /// The file of a standard stream of a worker.
    public enum Stream: Sendable, Hashable {
        /// The same file as this process's own stream of that number.
        case inherit
        /// `/dev/null`.
        case discard
        /// The file, pipe or socket of this descriptor. The descriptor stays the caller's, who may close it when the
        /// worker was started.
        case descriptor(Int32)
        /// The file at this path. A relative path starts at this process's working directory. Output is appended to the
        /// file, which is made when it is missing. The open does not wait for the other end of a FIFO: without a writer
        /// the worker reads no byte, and without a reader the start fails.
        case file(String)
    }
}
