import Glibc
import Ports

/// Handles a port's messages, until the port is invalid, which throws.
func serve(_ port: LocalMessagePort) throws(PortError) {
    let descriptor = try PortDescriptor(port)
    // A program has more to wait for.
    var watched = [pollfd(fd: descriptor.fileDescriptor, events: Int16(POLLIN), revents: 0)]
    while true {
        guard poll(&watched, nfds_t(watched.count), -1) > 0 else { continue }
        if watched[0].revents != 0 { try descriptor.handle() }
    }
}
