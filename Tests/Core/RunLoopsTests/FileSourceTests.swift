import Glibc
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct FileSourceTests {
    @Test func `each change of a file is told`() throws {
        let told = try told(of: "file") { folder in
            folder.write("file", "x")
            chmod(folder.path("file"), 0o400)
            rename(folder.path("file"), folder.path("elsewhere"))
            folder.write("elsewhere", "y")
        }
        #expect(
            told == [
                "written", "closedAfterWriting", "attributes", "moved", "written", "closedAfterWriting",
            ])
    }

    @Test func `each change of a directory's entries is told by name`() throws {
        let told = try told(of: ".") { folder in
            chmod(folder.path, 0o755)
            folder.write("new", "x")
            mkdir(folder.path("sub"), 0o700)
            folder.write("sub/unseen", "x")
            rename(folder.path("new"), folder.path("newer"))
            rename(folder.path("newer"), folder.path("sub/newest"))
            rename(folder.path("sub/newest"), folder.path("näher"))
            unlink(folder.path("näher"))
        }
        #expect(
            told == [
                "attributes", "entryCreated new", "written new", "closedAfterWriting new",
                "entryCreated entryIsDirectory sub",
                "entryMovedOut new (move)", "entryMovedIn newer (move)", "entryMovedOut newer (move)",
                "entryMovedIn näher (move)", "entryRemoved näher",
            ])
    }

    @Test func `the two sides of a move have one number`() throws {
        let (folder, moves) = (Folder(), Shared<[UInt32]>([]))
        folder.write("a", "")
        try onLoop { loop in
            add(try .file(folder.path, .all) { change in moves.withLock { $0.append(change.move) } }, to: loop)
            for (old, new) in [("a", "b"), ("b", "c")] { rename(folder.path(old), folder.path(new)) }
            run(loop, seconds: 0)
        }
        let seen = moves.withLock { $0 }
        try #require(seen.count == 4)
        #expect(seen[0] == seen[1])
        #expect(seen[2] == seen[3])
        #expect(seen[0] != seen[2])
        #expect(seen[0] != 0)
    }

    @Test func `only what was asked for is told, and the end`() throws {
        let (told, result) = try told(of: "file", [.attributes], isEnd: true) { folder in
            folder.write("file", "x")
            unlink(folder.path("file"))
        }
        #expect(told == ["attributes", "deleted"])
        #expect(result == .finished)
    }

    @Test func `the end of a directory is told once, and the source is invalid`() throws {
        let (told, result) = try told(of: ".", .all, isEnd: true) { folder in
            folder.write("file", "")
            unlink(folder.path("file"))
            rmdir(folder.path)
        }
        #expect(told.last == "deleted")
        #expect(told.count { $0 == "deleted" } == 1)
        #expect(result == .finished)
    }

    @Test func `the handler may invalidate, and the rest is not told`() throws {
        let folder = Folder()
        let count = try onLoop { loop in
            let (sources, count) = (Shared<[ThreadRunLoop.Source1]>([]), Shared(0))
            let source = try ThreadRunLoop.Source1.file(folder.path) { _ in
                count.withLock { $0 += 1 }
                for source in sources.withLock({ $0 }) { source.invalidate() }
            }
            sources.withLock { $0 = [source] }
            add(source, to: loop)
            folder.write("file", "x")
            run(loop, seconds: 0)
            sources.withLock { $0 = [] }
            return count.withLock { $0 }
        }
        #expect(count == 1)
    }

    @Test func `a run that returns tells one change, and none is lost between two loops`() throws {
        let folder = Folder()
        let trace = try onLoop { loop in
            let trace = Trace()
            let source = try ThreadRunLoop.Source1.file(folder.path, [.entryCreated]) { trace("\($0.name ?? "")") }
            add(source, to: loop)
            for name in ["a", "b", "c"] { folder.write(name, "") }
            trace("\(run(loop, seconds: 20, returning: true))")
            // What the kernel has already handed out goes to whoever has the source.
            onThread {
                add(source, to: .current)
                run(.current, seconds: 20, returning: true)
                source.isValid ? ThreadRunLoop.current.remove(source) : ()
            }
            trace("\(run(loop, seconds: 20, returning: true))")
            trace("\(run(loop, seconds: 0, returning: true))")
            return trace.all
        }
        #expect(trace == ["a", "handledSource", "b", "c", "handledSource", "timedOut"])
    }

    @Test func `a change wakes a loop that sleeps`() throws {
        let (folder, thread, told) = (Folder(), try RunLoopThread(), Latch())
        try thread.loop.add(.file(folder.path) { if $0.name == "late" { told.open() } })
        waitUntil { thread.loop.isWaiting }
        folder.write("late", "")
        #expect(told.wait(until: .patience))
    }

    @Test func `changes that were lost are told of`() throws {
        let (folder, last) = (Folder(), Shared<[ThreadRunLoop.FileEvents]>([]))
        try onLoop { loop in
            add(
                try .file(folder.path, [.attributes]) { change in
                    if change.events == .overflowed { last.withLock { $0.append(change.events) } }
                }, to: loop)
            for name in ["a", "b"] { folder.write(name, "") }
            let paths = (folder.path("a"), folder.path("b"))
            // Of equal changes in a row only one is kept.
            for _ in 0...folder.queueLimit / 2 {
                chmod(paths.0, 0o600)
                chmod(paths.1, 0o600)
            }
            while last.withLock({ $0.isEmpty }) { run(loop, seconds: 0) }
        }
        #expect(last.withLock { $0 } == [.overflowed])
    }

    @Test func `what cannot be watched is an error`() throws {
        let folder = Folder()
        folder.write("file", "")
        for path in ["none", "file/none", "", "file\0"] {
            let path = path.isEmpty ? "" : folder.path(path)
            #expect(throws: RunLoopError.noSuchFile(path: path)) { try ThreadRunLoop.Source1.file(path) { _ in } }
        }
        let long = String(repeating: "x", count: 5000)
        #expect(throws: RunLoopError.system(call: "inotify_add_watch", errno: ENAMETOOLONG)) {
            try ThreadRunLoop.Source1.file(long) { _ in }
        }
    }

    @Test(.enabled(if: World.limit("max_inotify_instances", 5).isThere))
    func `a user without an inotify instance left is told so, and by what limit`() {
        #expect(helper("instances", in: .limit("max_inotify_instances", 5)) == 0)
    }

    @Test(.enabled(if: World.limit("max_inotify_watches", 5).isThere))
    func `a user without an inotify watch left is told so, and by what limit`() {
        #expect(helper("watches", in: .limit("max_inotify_watches", 5)) == 0)
    }

    @Test(.enabled(if: World.mount.isThere))
    func `the end of the file system is told once, and the source is invalid`() {
        #expect(helper("unmount", in: .mount) == 0)
    }

    @Test func `what may not be read cannot be watched`() { #expect(helper("permission") == 0) }

    private func told(of name: String, _ change: (Folder) -> Void) throws -> [String] {
        try told(of: name, .all, change).told
    }

    private func told(
        of name: String, _ events: ThreadRunLoop.FileEvents, isEnd: Bool = false, _ change: (Folder) -> Void
    ) throws -> (told: [String], result: ThreadRunLoop.RunResult) {
        let (folder, trace) = (Folder(), Trace())
        folder.write("file", "")
        if name == "." { unlink(folder.path("file")) }
        let source = try ThreadRunLoop.Source1.file(folder.path(name), events) { trace($0.text) }
        change(folder)
        let result = onThread {
            add(source, to: .current)
            // The kernel tells the end of a file when the last process is through with it: perhaps a moment later.
            return run(.current, seconds: isEnd ? 30 : 0)
        }
        // The last pass finds the mode empty, and one that polls says that its time is over.
        return (trace.all, source.isValid ? result : .finished)
    }
}

/// Runs the body on a thread with a loop of its own; what it throws is thrown.
@discardableResult
private func onLoop<Value: Sendable>(_ body: @escaping @Sendable (ThreadRunLoop) throws -> Value) throws -> Value {
    try onThread { Result { try body(.current) } }.get()
}

extension ThreadRunLoop.FileChange {
    fileprivate var text: String {
        let names: [(ThreadRunLoop.FileEvents, String)] = [
            (.written, "written"), (.closedAfterWriting, "closedAfterWriting"), (.attributes, "attributes"),
            (.moved, "moved"), (.entryCreated, "entryCreated"), (.entryRemoved, "entryRemoved"),
            (.entryMovedIn, "entryMovedIn"), (.entryMovedOut, "entryMovedOut"), (.deleted, "deleted"),
            (.unmounted, "unmounted"), (.overflowed, "overflowed"), (.entryIsDirectory, "entryIsDirectory"),
        ]
        let told = names.filter { events.contains($0.0) }.map(\.1) + (name.map { [$0] } ?? [])
        return (told + (move == 0 ? [] : ["(move)"])).joined(separator: " ")
    }
}

/// A directory that is gone in the end, with what is in it.
private final class Folder: Sendable {
    private let folder = TemporaryFolder()
    var path: String { folder.path }

    func path(_ name: String) -> String { name == "." ? path : path + "/" + name }

    func write(_ name: String, _ text: String) {
        let file = open(path(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
        if !text.isEmpty { _ = Glibc.write(file, text, text.utf8.count) }
        close(file)
    }

    /// How many changes the kernel keeps.
    var queueLimit: Int { number(in: "/proc/sys/fs/inotify/max_queued_events") ?? 16384 }
}
