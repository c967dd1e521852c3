import CRunLoopShims
import Glibc
import OwnThread
import RunLoops
import TestSupport
import Testing

@testable import FuzzTargets
@testable import Ports

private enum Container {
    static let wrapper = ["/usr/bin/unshare", "--user", "--map-current-user", "--pid", "--fork", "--kill-child"]

    /// Runs a shell script as root of a container. Its arguments are the words of the helper's command.
    static func script(_ text: String) -> [String] {
        ["/usr/bin/unshare", "--map-root-user", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", text, "sh"]
    }

    /// Some systems have no such command, or do not let everybody use it.
    static let canBeMade: Bool = {
        guard access(wrapper[0], X_OK) == 0 else { return false }
        return Child("die", "0", in: Sandbox(), wrapper: wrapper).wait() == 0
    }()
}

/// Among processes of which some are in a pid namespace and a user namespace of their own, as in a container.
@Suite(.ownThread, .enabled(if: Container.canBeMade)) struct ContainerTests {
    let sandbox = Sandbox()

    @Test func `a name in a container is found from outside, and its owner's death is known`() throws {
        let child = Child("serve", "inside", in: sandbox, wrapper: Container.wrapper)
        let right = try sandbox.names.waitForPort(forName: "inside", before: .patience)
        #expect(try RemoteMessagePort(right).request(id: 1, [1, 2]) == [1, 2])
        let ended = Latch()
        right.onInvalidation { ended.open() }
        child.kill()
        #expect(ended.wait(until: .patience))
        #expect(!right.isValid)
        #expect(errorKind { _ = try sandbox.names.port(forName: "inside") } == "nameNotFound")
    }

    @Test func `a name outside is found from a container, and its owner sees who asks`() throws {
        let senders = Shared<[SenderCredentials?]>([])
        let server = try LocalMessagePort(name: "test", nameServer: sandbox.names) { request in
            senders.withLock { $0.append(request.message.sender) }
            try? request.replyRight?.reply(with: request.data)
        }
        let thread = try RunLoopThread()
        try server.schedule(in: thread.loop)
        let child = Child("ask", in: sandbox, wrapper: Container.wrapper)
        #expect(child.wait() == 0)
        let sender = senders.withLock { $0.first ?? nil }
        #expect(sender?.uid == geteuid())
        #expect(sender?.pid != 0)
        #expect(sender?.pid != 1)
        thread.stop()
    }

    @Test func `senders that a container cannot see are all told what was taken`() throws {
        let taker = Child("take", "100000", in: sandbox, wrapper: Container.wrapper)
        _ = try sandbox.names.waitForPort(forName: "test", before: .patience)
        // Each sends many times what it may without being told.
        let senders = (0..<3).map { _ in Child("bytes", "200", "10000", "end", in: sandbox) }
        for sender in senders { #expect(sender.wait() == 0) }
        withExtendedLifetime(taker) {}
    }

    @Test func `of processes that a container cannot see, none takes a connected one's place`() throws {
        let owner = Child("hold", "inside", in: sandbox, wrapper: Container.wrapper)
        let right = try sandbox.names.waitForPort(forName: "inside", before: .patience)
        let impostor = try LocalSocket.makeControl()
        defer { crl_unforked_close(impostor) }
        #expect(LocalSocket.connect(impostor, to: right.channel.controlAddress.path) == 0)
        let hello = Samples.hello(PortRuntime.shared.incarnation)
        #expect(send(impostor, hello, hello.count, Int32(MSG_NOSIGNAL)) == hello.count)
        #expect(crl_poll(impostor, -1, MonotonicInstant.patience.timeout) > 0)
        var bytes = [UInt8](repeating: 0, count: 64)
        #expect(recv(impostor, &bytes, bytes.count, 0) <= 0)
        #expect(try right.ping(before: .patience) > .zero)
        withExtendedLifetime(owner) {}
    }

    // In these containers, /proc shows the processes outside.

    @Test func `a live process is not taken for an ended one that has its id outside`() throws {
        // Nobody collects it.
        let ended = Child("die", "0", in: sandbox)
        #expect(waitUntil { ProcessStatus.isEnding(ended.pid) })
        let claimant = Child(
            "come", "inside", in: sandbox,
            wrapper: Container.script(
                """
                echo \(ended.pid - 1) > /proc/sys/kernel/ns_last_pid
                "$1" hold inside & [ $! = \(ended.pid) ] || exit 99
                until [ -e "$PORTS_DIRECTORY/names/inside" ]; do sleep 0.01; done
                "$@"; exit $?
                """))
        // It cannot have the name, or this system gives no process a chosen id.
        let status = claimant.wait()
        #expect(status == 70 || status == 99)
        withExtendedLifetime(ended) {}
    }

    @Test func `a name in a container in a container is found in the outer one`() throws {
        let sender = Child(
            "greet", in: sandbox,
            wrapper: Container.script(
                """
                unshare --pid --fork --kill-child "$1" hold target &
                until [ -e "$PORTS_DIRECTORY/names/target" ]; do sleep 0.01; done
                "$@"; exit $?
                """))
        #expect(sender.wait() == 0)
    }

    @Test func `a process is known by its own pid in its own namespace, and by 0 to those who cannot see it`() {
        #expect(ProcessStatus.isProcess(getpid(), knownToItselfAs: getpid()))
        #expect(ProcessStatus.isProcess(0, knownToItselfAs: 1234))
        #expect(!ProcessStatus.isProcess(getpid(), knownToItselfAs: getppid()))
        // Nobody has it.
        #expect(!ProcessStatus.isProcess(pid_t.max, knownToItselfAs: getpid()))
    }
}
