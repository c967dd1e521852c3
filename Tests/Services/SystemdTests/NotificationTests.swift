import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import Systemd

/// Notifications as the manager receives them, and those that cannot be sent.
@Suite(.ownThread) struct NotificationTests {
    private let manager = ManagerDouble()
    private let connection: ManagerConnection

    init() { connection = ManagerConnection(ManagerEnvironment(["NOTIFY_SOCKET": manager.address])) }

    @available(*, noasync)
    private func notify(
        _ notifications: SystemdDaemon.Notification..., to connection: ManagerConnection? = nil
    ) throws(SystemdError) -> Bool {
        try (connection ?? self.connection).notify(notifications, before: .patience)
    }

    /// The lines of the one datagram of a notification.
    @available(*, noasync)
    private func lines(of notification: SystemdDaemon.Notification) throws -> [String]? {
        #expect(try notify(notification))
        return manager.next()?.lines
    }

    private func connection(to address: String?) -> ManagerConnection {
        ManagerConnection(ManagerEnvironment(address.map { ["NOTIFY_SOCKET": $0] } ?? [:]))
    }

    @Test func `each notification is the lines that systemd knows`() throws {
        #expect(try lines(of: .ready) == ["READY=1"])
        #expect(try lines(of: .stopping) == ["STOPPING=1"])
        #expect(try lines(of: .alive) == ["WATCHDOG=1"])
        #expect(try lines(of: .stuck) == ["WATCHDOG=trigger"])
        #expect(try lines(of: .status("12 clients, größer")) == ["STATUS=12 clients, größer"])
        #expect(try lines(of: .failed(errno: ENOENT)) == ["ERRNO=2"])
        #expect(try lines(of: .mainProcess(77)) == ["MAINPID=77"])
        #expect(try lines(of: .extendTimeout(.seconds(90))) == ["EXTEND_TIMEOUT_USEC=90000000"])
        #expect(try lines(of: .extendTimeout(.nanoseconds(1500))) == ["EXTEND_TIMEOUT_USEC=2"])
        #expect(try lines(of: .removeDescriptors(name: "log")) == ["FDSTOREREMOVE=1", "FDNAME=log"])
    }

    @Test func `a reload has the monotonic time of its notification`() throws {
        let before = MonotonicInstant.now.nanoseconds / 1000
        let lines = try #require(try lines(of: .reloading))
        let after = MonotonicInstant.now.nanoseconds / 1000
        #expect(lines.first == "RELOADING=1")
        let time = lines.last?.split(separator: "=").last.flatMap { UInt64($0) } ?? 0
        #expect(lines.last == "MONOTONIC_USEC=\(time)")
        #expect((before...after).contains(time))
    }

    @Test func `notifications of one call share a datagram, except descriptors`() throws {
        let file = makeMemoryFile(mayBeSealed: true)
        defer { close(file) }
        #expect(
            try notify(
                .ready, .status("on"), .storeDescriptor(file, name: "one"), .removeDescriptors(name: "two"), .alive))
        #expect(manager.next()?.lines == ["READY=1", "STATUS=on"])
        #expect(manager.next()?.lines == ["FDSTORE=1", "FDNAME=one"])
        #expect(manager.next()?.lines == ["FDSTOREREMOVE=1", "FDNAME=two"])
        #expect(manager.next()?.lines == ["WATCHDOG=1"])
        #expect(manager.next(before: .now) == nil)
    }

    @Test func `a status cannot bring in another notification`() throws {
        #expect(try lines(of: .status("a\nREADY=1\0\tb\r\n")) == ["STATUS=a READY=1  b  "])
    }

    @Test func `descriptors reach the manager, as the same files`() throws {
        let files = (0..<3).map { _ in makeMemoryFile(mayBeSealed: true) }
        defer { for file in files { close(file) } }
        #expect(try notify(.storeDescriptors(files, name: "state", untilHangUp: false)))
        let datagram = try #require(manager.next())
        #expect(datagram.lines == ["FDSTORE=1", "FDNAME=state", "FDPOLL=0"])
        #expect(datagram.descriptors.map { FileIdentity(of: $0) } == files.map { FileIdentity(of: $0) })
    }

    @Test func `what is no notification is refused, and none of the call is sent`() throws {
        for name in ["", "a:b", "tab\t", "ü", String(repeating: "n", count: 256)] {
            #expect(throws: SystemdError.badDescriptorName(name)) {
                try notify(.ready, .removeDescriptors(name: name))
            }
        }
        for count in [0, 65] {
            #expect(throws: SystemdError.badDescriptorCount(count, allowed: 1...64)) {
                try notify(.ready, .storeDescriptors(Array(repeating: 0, count: count), name: "n"))
            }
        }
        #expect(throws: SystemdError.textTooLong(size: 4097, limit: 4096)) {
            try notify(.status(String(repeating: "s", count: 4090)))
        }
        for duration in [Duration.zero, .seconds(-1), .seconds(Int64.max)] {
            #expect {
                try notify(.ready, .extendTimeout(duration))
            } throws: { error in
                if case .invalidDuration("extendTimeout", duration, _)? = error as? SystemdError {
                    true
                } else {
                    false
                }
            }
        }
        #expect(manager.next(before: .now) == nil)
        #expect(throws: SystemdError.badDescriptor(12345)) { try notify(.storeDescriptor(12345, name: "n")) }
        #expect(try lines(of: .status(String(repeating: "s", count: 4089)))?.first?.utf8.count == 4096)
    }

    @Test func `a manager's abstract address is reached, too`() throws {
        let manager = ManagerDouble(isAbstract: true)
        #expect(try notify(.ready, to: connection(to: manager.address)))
        #expect(manager.next()?.lines == ["READY=1"])
    }

    @Test func `without a manager nothing is sent`() async throws {
        for address in [nil, ""] {
            let connection = connection(to: address)
            #expect(try await connection.notify([.ready, .extendTimeout(.zero)], before: .patience) == false)
        }
        #expect(try await SystemdDaemon.notify(.ready) == false)
        #expect(try SystemdDaemon.watchdogPeriod == nil)
        #expect(try SystemdDaemon.takeDescriptors() == [])
        #expect(try SystemdDaemon.addWatchdog(to: .main) == nil)
    }

    @Test func `an address that is none is refused, and one where nobody listens`() throws {
        for address in ["notify", "vsock:2:1234", "/" + String(repeating: "a", count: 107)] {
            #expect {
                try notify(.ready, to: connection(to: address))
            } throws: { error in
                guard case .badVariable("NOTIFY_SOCKET", address, _)? = error as? SystemdError else {
                    return false
                }
                return "\(error)".hasPrefix("the variable NOTIFY_SOCKET is \"\(address)\": it ")
            }
        }
        let folder = TemporaryFolder()
        let missing = "\(folder.path)/notify"
        #expect(throws: SystemdError.unreachable(address: missing, errno: ENOENT)) {
            try notify(.ready, to: connection(to: missing))
        }
        #expect(throws: SystemdError.unreachable(address: "@swift-ports-nobody", errno: ECONNREFUSED)) {
            try notify(.ready, to: connection(to: "@swift-ports-nobody"))
        }
    }

    @Test func `a forked child does not speak for its parent`() {
        let parent = Child(
            ["\(Child.folder)/SystemdTestHelper", "fork"],
            environment: ["NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "1000000"])
        #expect(parent.wait() == 0)
        #expect(manager.next()?.lines == ["STATUS=before"])
        #expect(manager.next()?.lines == ["STATUS=after"])
        #expect(manager.next(before: .now) == nil)
    }

    /// Sends as much as the manager's socket takes.
    @available(*, noasync)
    private func fill() throws {
        #expect(throws: SystemdError.busy(address: manager.address)) {
            while true { _ = try connection.notify([.alive], before: .distantPast) }
        }
    }

    @Test func `a manager that does not read holds a thread up until the deadline`() throws {
        try fill()
        let start = ContinuousClock.now
        #expect(throws: SystemdError.busy(address: manager.address)) {
            try connection.notify([.ready], before: .now + .milliseconds(50))
        }
        #expect(ContinuousClock.now - start >= .milliseconds(50))
        let sender = Helper { [connection] in try? connection.notify([.ready], before: .patience) }
        #expect(manager.receives { $0 == "READY=1" })
        #expect(sender.join() == true)
    }

    @Test func `a manager that does not read holds a task up until the deadline, or its cancellation`() async throws {
        try await withoutBlocking { try fill() }
        let busy = SystemdError.busy(address: manager.address)
        await #expect(throws: busy) { try await connection.notify([.ready], before: .now + .milliseconds(50)) }
        let cancelled = Task { [connection] in try await connection.notify([.ready], before: .patience) }
        cancelled.cancel()
        await #expect(throws: busy) { try await cancelled.value }
        let sending = Task { [connection] in try await connection.notify([.stopping], before: .patience) }
        #expect(manager.receives { $0 == "STOPPING=1" })
        #expect(try await sending.value)
    }

    /// Calls a closure that the compiler allows only outside of tasks.
    private func withoutBlocking(_ body: () throws -> Void) async throws { try body() }
}
