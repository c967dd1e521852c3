import Glibc

/// Both processes write to one output, each line at once.
func say(_ line: String) {
    print(line)
    fflush(nil)
}

struct SpawnError: Error, CustomStringConvertible {
    let error: Int32
    var description: String { "this program cannot be run again: \(String(cString: strerror(error)))" }
}

/// Runs this program again, as a child.
func runAgain(_ argument: String) throws(SpawnError) -> pid_t {
    var arguments = [strdup("named-port"), strdup(argument), nil]
    defer { for argument in arguments { free(argument) } }
    var pid: pid_t = 0
    let error = posix_spawn(&pid, "/proc/self/exe", nil, nil, &arguments, environ)
    guard error == 0 else { throw SpawnError(error: error) }
    return pid
}
