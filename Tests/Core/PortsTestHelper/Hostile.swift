import Glibc
import RunLoops
import TestSupport

@testable import Ports

// Processes that are treated badly, or treat others so.

/// What a target has seen. Used by the main thread alone.
private final class Seen: @unchecked Sendable {
    var handled: UInt64 = 0
    var hoard: [Int32] = []
}

/// A port that others do harm to, and that can be asked what it has seen of it.
///
/// - Parameter others: How many descriptors of others the process has before it has the port.
func standAsTarget(others: Int) throws -> Never {
    alarm(1800)
    try PortRuntime.shared.setFlushBound(.seconds(1))
    for _ in 0..<others { _ = open("/dev/null", O_RDONLY | O_CLOEXEC) }
    let seen = Seen()
    let port = try MachPort()
    port.setHandler { [weak port] message in
        switch message.id {
        case 1:
            let numbers = [
                seen.handled, UInt64(port?.malformedCount ?? 0), UInt64(heapUse()), UInt64(openDescriptors()),
            ]
            let bytes = numbers.withUnsafeBytes { Array($0) }
            try? message.replyPort?.send(MachPort.Message(id: 1, [.bytes(bytes)]), before: .now + .seconds(30))
        case 2:
            // What becomes of a new port?
            let outcome = Result { () throws(PortError) in try MachPort(nameServer: PortNameServer.shared) }
            let text = if case .failure(let error) = outcome { "\(error)" } else { "made" }
            try? message.replyPort?.send(MachPort.Message(id: 2, [.bytes(Array(text.utf8))]))
        case 3:
            while case let taken = open("/dev/null", O_RDONLY | O_CLOEXEC), taken >= 0 { seen.hoard.append(taken) }
        case 4:
            for taken in seen.hoard { close(taken) }
            seen.hoard = []
        case 5:
            exit(0)
        case 6:
            var limit = rlimit(rlim_cur: 50, rlim_max: 50)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        default:
            seen.handled += 1
        }
    }
    try PortNameServer.shared.register(port, name: "target")
    try port.schedule(in: .current)
    try report(port.sendRight)
    try runForEver()
}

/// A name of 10 MB is refused wherever a name goes in, before anything of its size is made.
func refuseLargeNames() throws -> Never {
    let name = String(repeating: "é", count: 5 << 20)
    let port = try MachPort()
    try PortNameServer.shared.register(port, name: "small")
    let server = try LocalMessagePort { _, data in data }
    let before = heapUse()
    let attempts: [() throws -> Void] = [
        { try PortNameServer.shared.register(port, name: name) },
        { try PortNameServer.shared.remove(port, name: name) },
        { _ = try PortNameServer.shared.port(forName: name) },
        { _ = try PortNameServer.shared.waitForPort(forName: name, before: .distantPast) },
        { _ = try LocalMessagePort(name: name) { _, data in data } },
        { _ = try RemoteMessagePort(name: name) },
        { try server.rename(to: name) },
    ]
    var most = before
    for (number, attempt) in attempts.enumerated() {
        do {
            try attempt()
            fail("attempt \(number) has succeeded")
        } catch let error as PortError {
            guard case .badName(_, let reason) = error, reason.contains("10485760") else { fail("\(number): \(error)") }
            guard error.description.utf8.count < 1000 else { fail("\(number): a long description") }
            most = max(most, heapUse())
        }
    }
    guard most < before + (1 << 20) else { fail("\(most - before) bytes of heap") }
    exit(0)
}

/// Runs out of libzmq's sockets while there are descriptors left.
func runOutOfSockets() throws -> Never {
    // The library raises its limit when it is first used, and reads it when the first port is made.
    try PortRuntime.shared.setFlushBound(.seconds(1))
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    let raised = limit
    limit.rlim_cur = 200
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    var ports = [try MachPort()]
    var copy = raised
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &copy)
    do {
        while ports.count < 1000 { ports.append(try MachPort()) }
        fail("no limit")
    } catch {
        guard error == .outOfSockets(limit: 200), error.description.contains("200") else { fail("\(error)") }
    }
    let last = ports[ports.count - 1]
    do {
        try last.sendRight.send(MachPort.Message(id: 5))
        fail("a socket more")
    } catch {
        guard error == .outOfSockets(limit: 200) else { fail("\(error)") }
    }
    // What is open goes on, and there is room again when some are gone.
    ports.removeFirst(10)
    // libzmq's own thread gives them back.
    check(waitUntil { (try? last.sendRight.send(MachPort.Message(id: 6))) != nil }, "no room again")
    guard try last.receive(before: .now + .seconds(20)).id == 6 else { fail("not received") }
    check(waitUntil { (try? MachPort()) != nil }, "no room for a port")
    exit(0)
}

/// All descriptors are taken: what is open already goes on working, waiting included.
func goOnWithoutDescriptors() throws -> Never {
    let (full, empty) = (try MachPort(queueLimit: 2), try MachPort())
    let server = try LocalMessagePort { _, data in data }
    let thread = try RunLoopThread()
    try server.schedule(in: thread.loop)
    let asker = RemoteMessagePort(server.sendRight)
    try full.sendRight.send(MachPort.Message(id: 0))
    _ = try full.receive(before: .now + .seconds(20))
    _ = try asker.request(id: 1, [1])
    let start = Latch()
    let sender = try RunLoopThread { _ in
        _ = start.wait(until: .distantFuture)
        for number in 1...500 as ClosedRange<UInt32> {
            do {
                try full.sendRight.send(MachPort.Message(id: number), before: .now + .seconds(20))
            } catch { fail("\(error)") }
        }
    }
    while open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 {}
    start.open()
    do {
        _ = try empty.receive(before: .now + .milliseconds(30))
        fail("received something")
    } catch {
        guard case .receiveTimedOut = error else { fail("\(error)") }
    }
    for number in 1...500 as ClosedRange<UInt32> {
        guard try full.receive(before: .now + .seconds(20)).id == number else { fail("not \(number)") }
    }
    guard try asker.request(id: 1, [7]) == [7] else { fail("no reply") }
    withExtendedLifetime((sender, thread)) { exit(0) }
}

/// The registry's file system is full: names are refused with the cause, what there is goes on, and there may be room
/// again later. By a limit on the size of files, or really.
func registerOnFullDisk(_ way: String?) throws -> Never {
    let registry = PortNameServer.shared.path
    let (first, second) = (try MachPort(), try MachPort())
    try PortNameServer.shared.register(first, name: "first")
    let filler = registry + "/filler"
    let expected: Int32
    if way == "limit" {
        expected = EFBIG
        var limit = rlimit(rlim_cur: 0, rlim_max: rlim_t.max)
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
    } else {
        expected = ENOSPC
        let file = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        let page = [UInt8](repeating: 1, count: 4096)
        while write(file, page, page.count) > 0 {}
        close(file)
    }
    do {
        try PortNameServer.shared.register(second, name: "second")
        fail("registered")
    } catch {
        guard case .directory(let path, "write", expected) = error, path.hasPrefix(registry) else { fail("\(error)") }
        guard error.description.contains(String(cString: strerror(expected))) else { fail("\(error)") }
    }
    guard try PortNameServer.shared.names() == ["first"] else { fail("names \(try PortNameServer.shared.names())") }
    guard try PortNameServer.shared.port(forName: "first") == first.sendRight else { fail("the first is lost") }
    // Is refused as well.
    let directory = try first.receiver.exposure.directoryOfSocket()
    directory.renewNames()
    // Half a note of a loan would keep the port's names from others for ever.
    let (port, home) = (first.receiver.id, second.receiver.id)
    guard (try? directory.beginLoan(of: port, by: home)) == nil, (try? directory.beginMove(of: port, to: home)) == nil,
        try directory.lender(of: port) == nil, try !directory.livesElsewhere(port, than: port)
    else { fail("a note is there in part: \(entries(of: registry + "/loans") ?? [])") }
    try first.sendRight.send(MachPort.Message(id: 4))
    guard try first.receive(before: .now + .seconds(20)).id == 4 else { fail("not received") }
    unlink(filler)
    var limit = rlimit(rlim_cur: rlim_t.max, rlim_max: rlim_t.max)
    setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
    try PortNameServer.shared.register(second, name: "second")
    guard try PortNameServer.shared.port(forName: "second") == second.sendRight else { fail("the second is lost") }
    let files = entries(of: registry + "/names/second")
    guard files == [second.receiver.id.file] else { fail("the second name has the files \(files ?? [])") }
    exit(0)
}

/// A socket that is connected to a path; nil, and an `errno`, when there is none.
func connected(to path: String, _ type: __socket_type) -> Int32? {
    let descriptor = socket(AF_UNIX, Int32(type.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
    let isConnected = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
        }
    }
    if isConnected { return descriptor }
    let error = errno
    close(descriptor)
    errno = error
    return nil
}

/// Another user's process: connects to a control socket or a port's, and is refused.
func intrude(_ path: String, isControl: Bool) throws -> Never {
    guard setgroups(0, nil) == 0, setgid(65534) == 0, setuid(65534) == 0 else { exit(80) }
    guard let descriptor = connected(to: path, isControl ? SOCK_SEQPACKET : SOCK_STREAM) else {
        fail("cannot connect to \(path): \(String(cString: strerror(errno)))")
    }
    var bytes = [UInt8](repeating: 0xff, count: 64)
    _ = send(descriptor, bytes, 24, Int32(MSG_NOSIGNAL))
    var limit = timeval(tv_sec: 20, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    let count = recv(descriptor, &bytes, bytes.count, 0)
    guard count == 0 || count < 0 && errno == ECONNRESET else { fail("\(path) answers: \(count)") }
    exit(0)
}

/// Another user's listener, in the place of a control socket.
func pose(_ path: String) throws -> Never {
    guard setgroups(0, nil) == 0, setgid(65534) == 0, setuid(65534) == 0 else { exit(80) }
    let descriptor = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
    let bound = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
    guard bound == 0, chmod(path, 0o777) == 0, listen(descriptor, 5) == 0 else { fail("cannot listen at \(path)") }
    while true {
        let caller = accept(descriptor, nil, nil)
        var bytes = [UInt8](repeating: 0, count: 64)
        // Nobody may say a word to it.
        guard recv(caller, &bytes, bytes.count, 0) == 0 else { exit(81) }
        close(caller)
    }
}

/// Many ports, some of them with a sender, and what each of them costs.
func holdManyPorts(_ count: Int, connected: Int) throws -> Never {
    alarm(300)
    func measured(_ body: () throws -> Void) rethrows -> Int {
        let before = heapUse()
        try body()
        return heapUse() - before
    }
    // What all ports share is made with the first.
    let first = try MachPort()
    try first.sendRight.send(MachPort.Message())
    _ = try first.receive(before: .now + .seconds(20))
    try report(first.sendRight)
    _ = try first.receive(before: .now + .seconds(20))
    let before = openDescriptors()
    var ports: [MachPort] = []
    ports.reserveCapacity(count)
    let idle = try measured { for _ in 0..<count { ports.append(try MachPort { _ in }) } }
    let used = try measured {
        for port in ports.prefix(connected) { try port.sendRight.send(MachPort.Message(id: 9)) }
        for port in ports.prefix(connected) {
            guard try port.receive(before: .now + .seconds(20)).id == 9 else { fail("not received") }
        }
    }
    // The same, with the test as the sender.
    let exposed = try measured {
        let rights = ports.suffix(connected).map { MachPort.Message.Component.port($0.sendRight) }
        try test().send(MachPort.Message(rights), before: .now + .seconds(60))
        for port in ports.suffix(connected) {
            guard try port.receive(before: .now + .seconds(60)).id == 9 else { fail("not received from the test") }
        }
    }
    let idleBytes = idle / count
    let (usedBytes, exposedBytes) = (idleBytes + used / connected, idleBytes + exposed / connected)
    let during = openDescriptors()
    let began = MonotonicInstant.now
    ports = []
    // libzmq's own thread gives them back.
    check(waitUntil { openDescriptors() <= before }, "\(openDescriptors() - before) descriptors are lost of \(during)")
    let time = began.duration(to: .now) / .milliseconds(1)
    let text =
        "\(idleBytes) bytes of heap an idle port, \(usedBytes) one connected inside the process, "
        + "\(exposedBytes) to another"
    // A bound PULL socket with one connection over ipc is 70 KiB by itself.
    guard idleBytes <= 8 << 10, usedBytes <= 64 << 10, exposedBytes <= 80 << 10 else { fail(text) }
    print("\(count) ports: \(text); ended in \(time.rounded()) ms")
    exit(0)
}
