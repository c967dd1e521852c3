import Glibc
import RunLoops
import TestSupport

@testable import Ports

/// Closes its standard error: the log does not go where its number leads then, and goes to another log in its place.
func replaceStandardError(by path: String) throws -> Never {
    try PortRuntime.shared.setFlushBound(.seconds(1))
    let log = Ports.log
    func write(_ line: String) {
        log.warning(line)
        log.close(before: .now + .seconds(20))
    }
    write("first")
    close(STDERR_FILENO)
    write("to nobody")
    var pair: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &pair) == 0, pair[0] == STDERR_FILENO else { exit(1) }
    write("to a socket")
    var byte: UInt8 = 0
    guard recv(pair[1], &byte, 1, Int32(MSG_DONTWAIT)) < 0, errno == EAGAIN else { exit(2) }
    close(STDERR_FILENO)
    guard open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600) == STDERR_FILENO else { exit(3) }
    write("to a file of the program")
    guard dup2(open(path, O_WRONLY | O_APPEND | O_CLOEXEC), STDERR_FILENO) == STDERR_FILENO else { exit(4) }
    write("second")
    exit(0)
}
