import Glibc
import OwnThread
import TestSupport
import Testing

@testable import Systemd

/// Descriptors that the manager passes, and the variables about them and the watchdog.
@Suite(.ownThread) struct DescriptorTests {
    private func connection(_ variables: [String: String]) -> ManagerConnection {
        ManagerConnection(ManagerEnvironment(variables))
    }

    private func isBadVariable(_ name: String, _ body: () throws -> Void) -> Bool {
        do {
            try body()
            return false
        } catch SystemdError.badVariable(name, _, _) {
            return true
        } catch {
            return false
        }
    }

    /// The lines of a process that has two descriptors, from number 3.
    private func taken(_ variables: String) -> [Substring] {
        let shell = #"export LISTEN_PID=$$ \#(variables); exec "$0" take 3<"$1" 4<"$1""#
        let run = Run(["/bin/sh", "-c", shell, "\(Child.folder)/SystemdTestHelper", "/dev/null"])
        #expect(run.child.wait() == 0)
        return String(decoding: run.output, as: UTF8.self).split(separator: "\n")
    }

    @Test func `passed descriptors have names, are closed on exec, and are taken once`() {
        #expect(taken("LISTEN_FDS=2 LISTEN_FDNAMES=web:stored") == ["web 3 true", "stored 4 true", "0"])
        #expect(taken("LISTEN_FDS=1") == ["unknown 3 true", "0"])
        #expect(taken("LISTEN_FDS=2 LISTEN_FDNAMES=:x") == [" 3 true", "x 4 true", "0"])
    }

    @Test func `another process's descriptors are not taken`() throws {
        #expect(taken("LISTEN_FDS=2 LISTEN_PID=1") == ["0"])
        #expect(taken("LISTEN_FDS=2; unset LISTEN_PID") == ["0"])
        #expect(taken("LISTEN_FDS=0") == ["0"])
        #expect(try connection(["LISTEN_PID": "7"]).takeDescriptors(of: 7) == [])
    }

    @Test func `variables that are none are named`() {
        for count in ["-1", "x", "2147483645", "99999999999999999999", " 1"] {
            let connection = connection(["LISTEN_PID": "7", "LISTEN_FDS": count])
            #expect(isBadVariable("LISTEN_FDS") { _ = try connection.takeDescriptors(of: 7) }, "\(count)")
        }
        let other = connection(["LISTEN_PID": "seven", "LISTEN_FDS": "1"])
        #expect(isBadVariable("LISTEN_PID") { _ = try other.takeDescriptors(of: 7) })
        let names = connection(["LISTEN_PID": "7", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "a:b"])
        #expect(isBadVariable("LISTEN_FDNAMES") { _ = try names.takeDescriptors(of: 7, from: 0) })
    }

    @Test func `descriptors that are not there are named, and none is taken`() {
        let connection = connection(["LISTEN_PID": "7", "LISTEN_FDS": "2000000000"])
        #expect {
            try connection.takeDescriptors(of: 7, from: 100_000_000)
        } throws: { $0 as? SystemdError == .badDescriptor(100_000_000) }
        #expect(connection.areDescriptorsTaken.withLock { $0 } == false)
    }

    @Test func `the watchdog is that of the process that the manager watches`() throws {
        let all = ["WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "7", "NOTIFY_SOCKET": "@x"]
        #expect(try connection(all).watchdogPeriod(of: 7) == .seconds(10))
        #expect(try connection(all).watchdogInterval(of: 7) == .milliseconds(2500))
        #expect(try connection(all).watchdogPeriod(of: 8) == nil)
        #expect(try connection(["WATCHDOG_USEC": "5"]).watchdogPeriod(of: 8) == .microseconds(5))
        #expect(try connection(["WATCHDOG_USEC": "5"]).watchdogInterval(of: 8) == nil)
        #expect(try connection(["WATCHDOG_PID": "7"]).watchdogPeriod(of: 7) == nil)
        for period in ["0", "-1", "18446744073709551615", "10s"] {
            let connection = connection(["WATCHDOG_USEC": period])
            #expect(isBadVariable("WATCHDOG_USEC") { _ = try connection.watchdogPeriod(of: 7) }, "\(period)")
        }
    }
}
