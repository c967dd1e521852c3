import CRunLoopShims
import Glibc
import SimulatedCalls

@testable import Ports

// The simulated calls, as `SimulatedCalls` makes them. Each returns a result, or an `errno` below zero.

private var process: Process { machine.current.process }

private func file<File: OpenFile>(_ descriptor: Int32, _: File.Type = File.self) -> File? {
    process.descriptors[descriptor] as? File
}

private func folder(_ descriptor: Int32) -> Node? { file(descriptor, NodeFile.self)?.node }

private func text(_ path: UnsafePointer<CChar>?) -> String { path.map { String(cString: $0) } ?? "" }

private func name(_ descriptor: Int32, _ path: String) -> String {
    descriptor >= Process.firstDescriptor && !path.hasPrefix("/") ? "…/\(path)" : path
}

// MARK: Files

@_cdecl("sim_open")
func open(_ from: Int32, _ path: UnsafePointer<CChar>, _ flags: Int32, _ mode: UInt32) -> Int32 {
    let path = text(path)
    if path.hasPrefix("/proc/"), !path.hasPrefix("/proc/self/fd/") {
        if let error = machine.error(.open) { return error }
        if let text = machine.files.text(path) { return process.add(TextFile(text)) }
        guard let names = machine.files.list(path) else { return -ENOENT }
        return process.add(NodeFile(machine.files.make(.folder, 0o555), names: names))
    }
    let creates = flags & O_CREAT != 0
    if creates { machine.step("open \(name(from, path))") }
    if let error = machine.error(creates ? .make : .open) { return error }
    switch machine.files.find(path, from: folder(from)).place {
    case .failure(let error): return error
    case .node(let node):
        if flags & O_DIRECTORY != 0, node.kind != .folder { return -ENOTDIR }
        if node.kind == .socket { return -ENXIO }
        let number = process.add(NodeFile(node))
        if number >= 0, flags & O_TRUNC != 0 { node.bytes = [] }
        return number
    case .free(let parent, let name):
        guard creates else { return -ENOENT }
        let node = machine.files.make(.file, mode)
        let number = process.add(NodeFile(node))
        if number >= 0 { machine.files.add(node, to: parent, name) }
        return number
    }
}

@_cdecl("sim_close")
func close(_ descriptor: Int32) -> Int32 { process.close(descriptor) }

private func copy(_ found: [UInt8], to bytes: UnsafeMutableRawPointer) -> Int {
    found.withUnsafeBytes { if let start = $0.baseAddress { bytes.copyMemory(from: start, byteCount: $0.count) } }
    return found.count
}

@_cdecl("sim_read")
func read(_ descriptor: Int32, _ bytes: UnsafeMutableRawPointer, _ size: UInt) -> Int {
    switch process.descriptors[descriptor] {
    case let file as EventFile:
        guard let count = file.take() else { return Int(-EAGAIN) }
        bytes.storeBytes(of: count, as: UInt64.self)
        return 8
    case let file as TimerFile:
        guard file.take() else { return Int(-EAGAIN) }
        bytes.storeBytes(of: 1, as: UInt64.self)
        return 8
    case let file as TextFile: return copy(file.read(Int(size)), to: bytes)
    case let file as NodeFile: return copy(file.read(Int(size)), to: bytes)
    case let file as InotifyFile:
        guard let found = file.read(Int(size)) else { return Int(-EAGAIN) }
        return copy(found, to: bytes)
    default: return Int(-EBADF)
    }
}

@_cdecl("sim_write")
func write(_ descriptor: Int32, _ bytes: UnsafeRawPointer, _ size: UInt) -> Int {
    switch process.descriptors[descriptor] {
    case let file as EventFile: file.add(bytes.loadUnaligned(as: UInt64.self))
    case let file as NodeFile:
        machine.step("write \(size) bytes")
        if let error = machine.error(.make) { return Int(error) }
        file.write(UnsafeRawBufferPointer(start: bytes, count: Int(size)))
    default: return Int(-EBADF)
    }
    return Int(size)
}

@_cdecl("sim_status")
func status(
    _ from: Int32, _ path: UnsafePointer<CChar>, _ follows: Bool, _ isEmpty: Bool, _ status: UnsafeMutablePointer<stat>
) -> Int32 {
    if isEmpty {
        switch process.descriptors[from] {
        case let file as NodeFile: fill(status, file.node)
        case let file as SocketFile:
            status.pointee.st_mode = S_IFSOCK | 0o600
            status.pointee.st_ino = UInt(bitPattern: ObjectIdentifier(file).hashValue) >> 4
        case nil: return -EBADF
        default: break
        }
        return 0
    }
    let path = text(path)
    if path.hasPrefix("/proc/"), !path.hasPrefix("/proc/self/fd/") {
        return machine.files.text(path) != nil || machine.files.list(path) != nil ? 0 : -ENOENT
    }
    switch machine.files.find(path, from: folder(from)).place {
    case .failure(let error): return error
    case .free: return -ENOENT
    case .node(let node):
        fill(status, node)
        return 0
    }
}

private func fill(_ status: UnsafeMutablePointer<stat>, _ node: Node) {
    let kind: mode_t =
        switch node.kind {
        case .folder: S_IFDIR
        case .file: S_IFREG
        case .socket: S_IFSOCK
        }
    status.pointee.st_mode = kind | mode_t(node.mode)
    status.pointee.st_ino = UInt(node.number)
    status.pointee.st_nlink = node.isRemoved ? 0 : 1
    status.pointee.st_size = node.bytes.count
    status.pointee.st_uid = geteuid()
    status.pointee.st_mtim.tv_sec = node.time
}

@_cdecl("sim_chmod")
func changeMode(_ from: Int32, _ path: UnsafePointer<CChar>, _ mode: UInt32) -> Int32 {
    let path = text(path)
    if path.isEmpty {
        file(from, NodeFile.self)?.node.mode = mode
        return 0
    }
    guard case .node(let node) = machine.files.find(path, from: folder(from)).place else { return -ENOENT }
    node.mode = mode
    return 0
}

@_cdecl("sim_mkdir")
func makeFolder(_ from: Int32, _ path: UnsafePointer<CChar>, _ mode: UInt32) -> Int32 {
    let path = text(path)
    machine.step("mkdir \(name(from, path))")
    if let error = machine.error(.make) { return error }
    switch machine.files.find(path, from: folder(from)).place {
    case .failure(let error): return error
    case .node: return -EEXIST
    case .free(let parent, let name):
        machine.files.add(machine.files.make(.folder, mode), to: parent, name)
        return 0
    }
}

@_cdecl("sim_unlink")
func remove(_ from: Int32, _ path: UnsafePointer<CChar>, _ isFolder: Bool) -> Int32 {
    let path = text(path)
    machine.step("\(isFolder ? "rmdir" : "unlink") \(name(from, path))")
    return machine.files.remove(path, from: folder(from), isFolder: isFolder)
}

@_cdecl("sim_rename")
func rename(_ from: Int32, _ path: UnsafePointer<CChar>, _ toFolder: Int32, _ to: UnsafePointer<CChar>) -> Int32 {
    let (path, to) = (text(path), text(to))
    machine.step("rename \(name(from, path)) to \(name(toFolder, to))")
    if let error = machine.error(.make) { return error }
    return machine.files.rename(path, folder(from), to: to, folder(toFolder))
}

@_cdecl("sim_readlink")
func readLink(_ path: UnsafePointer<CChar>, _ bytes: UnsafeMutablePointer<CChar>, _ size: UInt) -> Int32 {
    guard let target = machine.files.link(text(path)) else { return -ENOENT }
    return Int32(copy(Array(target.utf8.prefix(Int(size))), to: bytes))
}

@_cdecl("sim_files")
func files(_ descriptor: Int32, _ index: Int32, _ name: UnsafeMutablePointer<CChar>) -> Int32 {
    guard let found = file(descriptor, NodeFile.self)?.name(Int(index)) else { return 0 }
    strncpy(name, found, 255)
    return 1
}

@_cdecl("sim_inotify")
func makeInotify() -> Int32 {
    if let error = machine.error(.descriptor) {
        process.hearsFiles = false
        return error
    }
    return process.add(InotifyFile())
}

@_cdecl("sim_inotify_add")
func addWatch(_ descriptor: Int32, _ path: UnsafePointer<CChar>, _ mask: UInt32) -> Int32 {
    guard let inotify = file(descriptor, InotifyFile.self) else { return -EBADF }
    guard case .node(let node) = machine.files.find(text(path), from: nil).place else { return -ENOENT }
    return inotify.add(node, mask)
}

// MARK: Descriptors

@_cdecl("sim_duplicate")
func duplicate(_ descriptor: Int32) -> Int32 {
    if let file = process.descriptors[descriptor] { return process.add(file) }
    return descriptor < Process.firstDescriptor ? process.add(EventFile(0)) : -EBADF
}

@_cdecl("sim_unread")
func unread(_ descriptor: Int32, _ ofPeer: Bool) -> Int32 {
    guard let socket = file(descriptor, SocketFile.self) else { return -ENOTTY }
    return Int32(ofPeer ? socket.unreadByPeer : socket.unread)
}

@_cdecl("sim_limit")
func limit(_ resource: Int32) -> UInt64 {
    switch resource {
    case Int32(RLIMIT_NOFILE.rawValue): process.end
    case Int32(RLIMIT_AS.rawValue): process.memoryLimit
    default: process.fileLimit
    }
}

@_cdecl("sim_epoll_create")
func makeEpoll() -> Int32 {
    if let error = machine.error(.descriptor) { return error }
    return process.add(EpollFile())
}

@_cdecl("sim_epoll_control")
func controlEpoll(_ set: Int32, _ operation: Int32, _ descriptor: Int32, _ events: UInt32, _ token: UInt64) -> Int32 {
    guard let set = file(set, EpollFile.self), let watched = process.descriptors[descriptor] else { return -EBADF }
    return set.control(operation, descriptor, watched, events, token)
}

@_cdecl("sim_epoll_wait")
func waitForEpoll(_ set: Int32, _ events: UnsafeMutablePointer<simulated_event>, _ most: Int32, _ timeout: Int64)
    -> Int32
{
    guard let set = file(set, EpollFile.self) else { return -EBADF }
    if timeout != 0 {
        let deadline = timeout < 0 ? nil : machine.now + UInt64(timeout)
        _ = machine.wait(until: deadline, for: [set]) { set.hasReady }
    }
    return Int32(
        set.take(Int(most)) { index, ready, token in
            simulated_event_set(events + index, ready, token)
        })
}

@_cdecl("sim_eventfd")
func makeEvent(_ value: UInt32) -> Int32 {
    if let error = machine.error(.descriptor) { return error }
    return process.add(EventFile(UInt64(value)))
}

@_cdecl("sim_timerfd")
func makeTimer() -> Int32 { process.add(TimerFile()) }

@_cdecl("sim_timerfd_set")
func setTimer(_ descriptor: Int32, _ time: UInt64) -> Int32 {
    guard let timer = file(descriptor, TimerFile.self) else { return -EBADF }
    timer.set(time)
    return 0
}

@_cdecl("sim_poll")
func poll(_ polled: UnsafeMutablePointer<pollfd>?, _ count: UInt, _ timeout: Int64) -> Int32 {
    let process = process
    func look() -> Int32 {
        var ready: Int32 = 0
        for index in 0..<Int(count) {
            guard let polled else { break }
            polled[index].revents = 0
            guard polled[index].fd >= 0 else { continue }
            let asked = UInt32(UInt16(bitPattern: polled[index].events)) | Ready.error | Ready.hangUp
            let found = process.descriptors[polled[index].fd].map { $0.readiness & asked } ?? UInt32(POLLNVAL)
            polled[index].revents = Int16(truncatingIfNeeded: found)
            if found != 0 { ready += 1 }
        }
        return ready
    }
    if timeout != 0 {
        let deadline = timeout < 0 ? nil : machine.now + UInt64(timeout)
        let files = (0..<Int(count)).compactMap { index in polled.flatMap { process.descriptors[$0[index].fd] } }
        _ = machine.wait(until: deadline, for: files) { look() != 0 }
    }
    return look()
}

// MARK: Memory

@_cdecl("sim_memory_descriptor")
func memoryDescriptor(_ descriptor: Int32) -> Int32 { file(descriptor, MemoryFile.self)?.real ?? -1 }

@_cdecl("sim_memory_create")
func createMemory(_ real: Int32) -> Int32 {
    if let error = machine.error(.descriptor) { return error }
    return process.add(MemoryFile(real))
}

@_cdecl("sim_memory_error")
func memoryError() -> Int32 { machine.error(.memory) ?? 0 }

@_cdecl("sim_memory_mapped")
func memoryWasMapped(_ start: UnsafeMutableRawPointer, _ size: UInt) { process.mapped(start, Int(size)) }

@_cdecl("sim_memory_unmapped")
func memoryWasUnmapped(_ start: UnsafeMutableRawPointer) -> Bool { process.unmapped(start) }

// MARK: Sockets

@_cdecl("sim_socket")
func makeSocket(_ type: Int32) -> Int32 {
    if let error = machine.error(.descriptor) { return error }
    return process.add(SocketFile(isStream: type == Int32(SOCK_STREAM.rawValue)))
}

@_cdecl("sim_socket_pair")
func makeSocketPair(_ type: Int32, _ ends: UnsafeMutablePointer<Int32>) -> Int32 {
    if let error = machine.error(.descriptor) { return error }
    let pair = SocketFile.pair(isStream: type == Int32(SOCK_STREAM.rawValue), process.pid)
    let first = process.add(pair.0)
    guard first >= 0 else { return first }
    let second = process.add(pair.1)
    guard second >= 0 else {
        _ = process.close(first)
        return second
    }
    (ends[0], ends[1]) = (first, second)
    return 0
}

@_cdecl("sim_bind")
func bind(_ descriptor: Int32, _ path: UnsafePointer<CChar>) -> Int32 {
    let path = text(path)
    machine.step("bind \(path)")
    guard let socket = file(descriptor, SocketFile.self) else { return -EBADF }
    if let error = machine.error(.make) { return error }
    switch machine.files.find(path, from: nil).place {
    case .failure(let error): return error
    case .node: return -EADDRINUSE
    case .free(let parent, let name):
        let node = machine.files.make(.socket, 0o600)
        node.socket = socket
        socket.path = path
        machine.files.add(node, to: parent, name)
        return 0
    }
}

@_cdecl("sim_listen")
func listen(_ descriptor: Int32, _ backlog: Int32) -> Int32 {
    guard let socket = file(descriptor, SocketFile.self) else { return -EBADF }
    machine.step("listen at \(socket.path)")
    socket.listen(process.pid, backlog: Int(backlog))
    return 0
}

@_cdecl("sim_connect")
func connect(_ descriptor: Int32, _ path: UnsafePointer<CChar>) -> Int32 {
    let path = text(path)
    machine.step("connect to \(path)")
    guard let socket = file(descriptor, SocketFile.self) else { return -EBADF }
    switch machine.files.find(path, from: nil).place {
    case .failure(let error): return error
    case .free: return -ENOENT
    case .node(let node): return socket.connect(to: node.socket, process.pid)
    }
}

@_cdecl("sim_accept")
func accept(_ descriptor: Int32) -> Int32 {
    guard let listener = file(descriptor, SocketFile.self) else { return -EBADF }
    // Without a free descriptor, the caller stays in the queue.
    if let error = machine.error(.accept) { return error }
    let number = process.lowestFree
    guard number >= 0 else { return number }
    guard let accepted = listener.accept() else { return -EAGAIN }
    _ = process.add(accepted)
    accepted.references -= 1
    return number
}

@_cdecl("sim_peer")
func peer(_ descriptor: Int32) -> Int32 { file(descriptor, SocketFile.self)?.peerPid ?? -EBADF }

@_cdecl("sim_peer_path")
func peerPath(_ descriptor: Int32, _ path: UnsafeMutablePointer<CChar>) -> Int32 {
    guard let socket = file(descriptor, SocketFile.self), socket.isConnected else { return -ENOTCONN }
    strncpy(path, socket.path, 107)
    return 0
}

@_cdecl("sim_send")
func send(
    _ descriptor: Int32, _ bytes: UnsafeRawPointer, _ size: UInt, _ descriptors: UnsafePointer<Int32>?, _ count: Int32
) -> Int {
    guard let socket = file(descriptor, SocketFile.self) else { return Int(-EBADF) }
    if !socket.isStream {
        let packet = UnsafeRawBufferPointer(start: bytes, count: Int(size))
        let to = socket.path.isEmpty ? "a peer" : socket.path
        machine.step("send \(ControlMessage(packet).map { "\($0)" } ?? "a packet of \(size) bytes") to \(to)")
    }
    guard !process.isDead, let socket = file(descriptor, SocketFile.self) else { return Int(-EBADF) }
    // The socket of a bell has no room only while rings wait there.
    if let error = machine.error(.send), !socket.isStream || error != -EAGAIN { return Int(error) }
    let files = (0..<Int(count)).compactMap { index in descriptors.flatMap { process.descriptors[$0[index]] } }
    return Int(socket.send(Array(UnsafeRawBufferPointer(start: bytes, count: Int(size))), files))
}

@_cdecl("sim_receive")
func receive(
    _ descriptor: Int32, _ bytes: UnsafeMutableRawPointer, _ size: UInt, _ descriptors: UnsafeMutablePointer<Int32>?,
    _ count: UnsafeMutablePointer<Int32>
) -> Int {
    guard let socket = file(descriptor, SocketFile.self) else { return Int(-EBADF) }
    let received = socket.isStream ? socket.receiveAll(Int(size)) : socket.receive()
    switch received {
    case .end: return 0
    case .failure(let error): return Int(error)
    case .packet(let packet):
        for found in packet.files {
            // The kernel leaves out what the receiver has no room for.
            let number = descriptors == nil ? -EMFILE : process.add(found)
            found.release()
            if number >= 0 {
                descriptors?[Int(count.pointee)] = number
                count.pointee += 1
            }
        }
        return copy(Array(packet.bytes.prefix(Int(size))), to: bytes)
    }
}

@_cdecl("sim_shutdown")
func shutDown(_ descriptor: Int32) -> Int32 {
    guard let socket = file(descriptor, SocketFile.self) else { return -EBADF }
    machine.step("shut down a connection")
    socket.shutDown()
    return 0
}

// MARK: Processes, threads and time

@_cdecl("sim_pid")
func pid() -> Int32 { process.pid }

@_cdecl("sim_tid")
func tid() -> Int32 { machine.current.carrier.number }

@_cdecl("sim_thread_exists")
func threadExists(_ number: Int32) -> Int32 {
    machine.threads.contains { $0.carrier.number == number && $0.process === process } ? 1 : 0
}

@_cdecl("sim_kill")
func kill(_ pid: Int32, _ signal: Int32) -> Int32 {
    guard let found = machine.processes.last(where: { $0.pid == pid && $0.state != .gone }) else { return -ESRCH }
    if signal != 0, !found.isDead { machine.signal(found, signal) }
    return 0
}

@_cdecl("sim_pidfd")
func makeProcessFile(_ pid: Int32) -> Int32 {
    guard let found = machine.processes.last(where: { $0.pid == pid && $0.hasNumber }) else { return -ESRCH }
    if let error = machine.error(.descriptor) { return error }
    return process.add(ProcessFile(found))
}

@_cdecl("sim_pidfd_signal")
func signal(_ descriptor: Int32, _ signal: Int32) -> Int32 {
    guard let found = file(descriptor, ProcessFile.self)?.process else { return -EBADF }
    machine.step("send signal \(signal) to \(found)")
    guard !found.isDead else { return found.hasNumber ? 0 : -ESRCH }
    if signal == SIGKILL { machine.killer(found) }
    machine.signal(found, signal)
    return 0
}

/// - Returns: 1 when the child has ended, 0 when it has not.
@_cdecl("sim_collect")
func collect(_ descriptor: Int32, _ stays: Bool, _ status: UnsafeMutablePointer<Int32>) -> Int32 {
    guard let child = file(descriptor, ProcessFile.self)?.process, child.parent === process else { return -ECHILD }
    guard child.state == .gone else { return 0 }
    status.pointee = child.status
    if !stays { child.parent = nil }
    return 1
}

@_cdecl("crl_spawn")
func spawn(
    _ pid: UnsafeMutablePointer<Int32>, _ program: UnsafePointer<crl_program>,
    _ failed: UnsafeMutablePointer<UnsafePointer<CChar>?>
) -> Int32 {
    let program = program.pointee
    let path = text(program.path)
    // At once, because all processes share the lock of `GroupGuard`, and the dead would keep it.
    guard let start = machine.programs[path] else {
        failed.pointee = program.path
        return ENOENT
    }
    machine.step("start \(path)")
    if machine.error(.descriptor) != nil { return EAGAIN }
    var variables: [String: String] = [:]
    var entry = program.environment
    while let next = entry?.pointee {
        let words = text(next).split(separator: "=", maxSplits: 1).map { String($0) }
        if words.count == 2 { variables[words[0]] = words[1] }
        entry = entry?.successor()
    }
    let child = start(variables, file(program.kept, EventFile.self))
    (child.parent, child.endsWithParent) = (process, program.ends_with_launcher)
    pid.pointee = child.pid
    return 0
}

@_cdecl("sim_now")
func now() -> UInt64 { machine.now }

@_cdecl("sim_wall_clock")
func wallClock() -> UInt64 { machine.wallClock }

@_cdecl("sim_random")
func random() -> UInt64 { machine.chance.next() }

@_cdecl("sim_sleep")
func sleep(_ nanoseconds: UInt64) { machine.sleep(nanoseconds) }

@_cdecl("sim_yield")
func yield() { machine.sleep(1000) }

@_cdecl("sim_futex_wait")
func waitForFutex(_ word: UnsafePointer<UInt32>, _ value: UInt32, _ deadline: Int64) -> Int32 {
    // The word itself says when the wait is over: who changes it also wakes.
    guard word.pointee == value else { return -EAGAIN }
    let isWoken = machine.wait(until: deadline < 0 ? nil : UInt64(deadline)) { word.pointee != value }
    return isWoken ? 0 : -ETIMEDOUT
}

@_cdecl("sim_futex_wake")
func wakeFutex(_ word: UnsafePointer<UInt32>, _ count: Int32) -> Int32 { 0 }

@_cdecl("sim_thread_create")
func createThread(
    _ thread: UnsafeMutablePointer<UInt64>,
    _ body:
        @escaping @convention(c) (UnsafeMutableRawPointer?) ->
        UnsafeMutableRawPointer?, _ argument: UnsafeMutableRawPointer?
) -> Int32 {
    if machine.error(.descriptor) != nil { return EAGAIN }
    nonisolated(unsafe) let argument = argument
    thread.pointee = UInt64(machine.startThread(process, "library", { body(argument) }).number)
    return 0
}

@_cdecl("sim_thread_join")
func joinThread(_ number: UInt64) -> UnsafeMutableRawPointer? { machine.join(Int(number)) }

@_cdecl("sim_thread_name")
func nameThread(_ name: UnsafePointer<CChar>) { machine.current.name = text(name) }

@_cdecl("sim_enqueue")
func enqueue(_ job: UnsafeMutableRawPointer) { process.enqueue(.task(job)) }

@_cdecl("sim_perform")
func perform(
    _ function: @escaping @convention(c) (UnsafeMutableRawPointer?) -> Void, _ context: UnsafeMutableRawPointer?,
    _ time: UInt64
) {
    process.enqueue(.call(function, context), at: time)
}

@_cdecl("sim_dispatch")
func dispatch(_ queue: UnsafeMutableRawPointer, _ block: UnsafeMutableRawPointer, _ time: UInt64) {
    process.dispatch(block, on: queue, at: time)
}
