import Glibc
import Ports
import RunLoops
import TestSupport

/// Registers a name at the moment it is told, and says whether it got it, or who has it; gives it up, or ends, when it
/// is told to.
func race(for name: String) throws -> Never {
    alarm(600)
    let tester = try test()
    let port = try MachPort()
    try report(port.sendRight)
    while true {
        let message = try port.receive()
        switch message.id {
        case 1:
            // All at once, not one after the other as they are told.
            let start = message.withBytes { MonotonicInstant(nanoseconds: $0.unsafeLoadUnaligned(as: UInt64.self)) }
            waitUntil { start?.hasPassed != false }
            switch Result(catching: { () throws(PortError) in try PortNameServer.shared.register(port, name: name) }) {
            case .success:
                try tester.send(MachPort.Message(id: 10, replyPort: port.sendRight))
            case .failure(.nameInUse(_, let port)):
                let pid = port.pid ?? 0
                try tester.send(MachPort.Message(id: 11, [.bytes(withUnsafeBytes(of: pid) { Array($0) })]))
            case .failure(let error):
                fail("\(error)")
            }
        case 2:
            try PortNameServer.shared.remove(port, name: name)
            try tester.send(MachPort.Message(id: 12))
        default:
            exit(0)
        }
    }
}

/// Owns a name so many times, for a moment each. An address that the kernel gives to one at a time shows when another
/// has the name too: then it ends with the status 72.
func contend(for name: String, _ times: Int) throws -> Never {
    alarm(600)
    let port = try MachPort()
    var owned = 0
    while owned < times {
        switch Result(catching: { () throws(PortError) in try PortNameServer.shared.register(port, name: name) }) {
        case .success:
            let directory = PortNameServer.shared.path
            guard let mark = uniqueSocket(directory + name) else { fail("another has the name too", status: 72) }
            guard try PortNameServer.shared.port(forName: name) == port.sendRight else { fail("not found", status: 72) }
            close(mark)
            try PortNameServer.shared.remove(port, name: name)
            owned += 1
        case .failure(.nameInUse):
            // A contender that tries without a pause would keep the others from the processor.
            usleep(200)
        case .failure(let error):
            fail("\(error)")
        }
    }
    exit(0)
}

/// A socket bound to an abstract address, which vanishes with it; nil when there is one already.
private func uniqueSocket(_ name: String) -> Int32? {
    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.dropFirst().copyBytes(from: name.utf8.prefix(100)) }
    let isBound = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
        }
    }
    if isBound { return descriptor }
    close(descriptor)
    return nil
}
