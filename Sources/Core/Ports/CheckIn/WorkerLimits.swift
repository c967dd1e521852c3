import CRunLoopShims
import Glibc

extension WorkerProcess.Configuration {
    /// The process group that a worker starts in.
    public enum ProcessGroup: Sendable, Hashable {
        /// This process's. Ctrl-C in a terminal ends the worker, too.
        case inherited
        /// A group of the worker's own.
        case own
        /// A group of the worker's own, in a session of its own, which has no terminal.
        case ownSession
    }

    /// The kernel's limits of a process. Nil stands for this process's own, and no limit can be above that.
    public struct Limits: Sendable, Hashable {
        /// The address space, in bytes: `RLIMIT_AS`. A Swift program needs some hundred MiB, however little of it is in
        /// use, and 64 MiB for each process that sends to it by a ring. Beyond it, an allocation ends the program.
        public var addressSpace: Int?
        /// The time on processors, in whole seconds: `RLIMIT_CPU`. Beyond it, the kernel kills the program.
        public var processorTime: Duration?
        /// The number of descriptors: `RLIMIT_NOFILE`.
        public var openFiles: Int?
        /// The size of a file that the program writes, in bytes: `RLIMIT_FSIZE`. Beyond it, SIGXFSZ ends the program.
        /// Rings need files of 64 MiB.
        public var fileSize: Int?
        /// The size of the file that a crash leaves, in bytes: `RLIMIT_CORE`.
        public var coreSize: Int?

        /// Makes limits.
        public init(
            addressSpace: Int? = nil, processorTime: Duration? = nil, openFiles: Int? = nil, fileSize: Int? = nil,
            coreSize: Int? = nil
        ) {
            self.addressSpace = addressSpace
            self.processorTime = processorTime
            self.openFiles = openFiles
            self.fileSize = fileSize
            self.coreSize = coreSize
        }
    }
}

extension WorkerProcess.Configuration.Limits {
    /// One limit, as the kernel knows it.
    struct Limit {
        let resource: Int32
        let most: UInt64
        let name: StaticString
    }

    /// - Throws: ``CheckInError/notLaunched(reason:)`` for a negative limit.
    var all: [Limit] {
        get throws(CheckInError) {
            let time = processorTime.map { Int(($0 / .seconds(1)).rounded(.up)) }
            return try [
                limit(RLIMIT_AS, addressSpace, "the limit of the address space"),
                limit(RLIMIT_CPU, time, "the limit of the time on processors"),
                limit(RLIMIT_NOFILE, openFiles, "the limit of open files"),
                limit(RLIMIT_FSIZE, fileSize, "the limit of a file's size"),
                limit(RLIMIT_CORE, coreSize, "the limit of a core file's size"),
            ].compactMap { $0 }
        }
    }

    private func limit(
        _ resource: __rlimit_resource, _ most: Int?, _ name: StaticString
    ) throws(CheckInError) -> Limit? {
        guard let most else { return nil }
        guard most >= 0 else { throw .notLaunched(reason: "\(name) is \(most), and cannot be negative") }
        return Limit(resource: Int32(bitPattern: resource.rawValue), most: UInt64(most), name: name)
    }
}
