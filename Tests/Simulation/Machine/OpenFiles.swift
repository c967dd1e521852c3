import Glibc
import SimulatedCalls

/// An open file, socket or other object behind descriptors. It closes with its last reference: a descriptor of any process,
/// or a packet on its way.
class OpenFile {
    var references = 0
    /// Counts what has happened to the file, for edges.
    private(set) var changes = 0
    /// The sets that contain the file.
    var sets: [OpenFile] = []
    /// The threads that wait for the file.
    var waiters: [Thread] = []
    var isClosed = false

    func release() {
        references -= 1
        if references == 0 {
            isClosed = true
            close()
        }
    }

    func close() {}

    /// For a story's end.
    var kind: String { "\(type(of: self))" }

    /// The file may be ready now, or have another alarm.
    final func noteChange() {
        changes += 1
        tellWaiters()
    }

    private func tellWaiters() {
        for waiter in waiters { waiter.mayBeReady = true }
        for set in sets { set.tellWaiters() }
    }

    /// The readiness that poll and epoll report.
    var readiness: UInt32 { 0 }
    /// The time of the next change by itself.
    var alarm: UInt64? { nil }
}

enum Ready {
    static let readable: UInt32 = 0x1
    static let writable: UInt32 = 0x4
    static let error: UInt32 = 0x8
    static let hangUp: UInt32 = 0x10
    static let readHangUp: UInt32 = 0x2000
    static let edge: UInt32 = 1 << 31
}

/// An eventfd.
final class EventFile: OpenFile {
    private var count: UInt64

    init(_ count: UInt64) { self.count = count }

    override var readiness: UInt32 { Ready.writable | (count > 0 ? Ready.readable : 0) }

    func add(_ number: UInt64) {
        count += number
        noteChange()
    }

    func take() -> UInt64? {
        guard count > 0 else { return nil }
        defer { count = 0 }
        return count
    }
}

/// A timerfd with one expiry.
final class TimerFile: OpenFile {
    private var time: UInt64 = 0

    func set(_ time: UInt64) {
        self.time = time
        noteChange()
    }

    override var readiness: UInt32 { time != 0 && time <= machine.now ? Ready.readable : 0 }
    override var alarm: UInt64? { time > machine.now ? time : nil }
    func take() -> Bool {
        guard readiness != 0 else { return false }
        time = 0
        return true
    }
}

/// A memfd, which is a real one behind a simulated descriptor.
final class MemoryFile: OpenFile {
    let real: Int32

    init(_ real: Int32) { self.real = real }
    override func close() { simulated_memory_close(real) }
}

/// A file that is known by its numbers, such as the end of a pipe that nobody uses.
final class MarkFile: OpenFile {
    let (line, number): (UInt32, UInt32)
    /// Whether somebody has got it with its message.
    var isTaken = false

    init(_ line: UInt32, _ number: UInt32) { (self.line, self.number) = (line, number) }
}

/// A text, such as a file in `/proc`.
final class TextFile: OpenFile {
    private var rest: [UInt8]

    init(_ text: String) { rest = Array(text.utf8) }

    func read(_ count: Int) -> [UInt8] {
        defer { rest.removeFirst(min(count, rest.count)) }
        return Array(rest.prefix(count))
    }
}

/// A process, as a pidfd shows it: readable when it has ended.
final class ProcessFile: OpenFile {
    let process: Process
    init(_ process: Process) {
        self.process = process
        super.init()
        process.watchers.append(self)
    }
    override func close() { process.watchers.removeAll { $0 === self } }
    override var readiness: UInt32 { process.state == .gone ? Ready.readable : 0 }
}

/// An epoll set.
final class EpollFile: OpenFile {
    private struct Entry {
        let number: Int32
        let file: OpenFile
        var events: UInt32
        var token: UInt64
        /// The changes that an edge-triggered entry has reported.
        var seen: Int
    }

    private var entries: [Entry] = []

    func control(_ operation: Int32, _ number: Int32, _ file: OpenFile, _ events: UInt32, _ token: UInt64) -> Int32 {
        forgetClosed()
        let index = entries.firstIndex { $0.number == number && $0.file === file }
        switch operation {
        case Int32(EPOLL_CTL_ADD):
            if index != nil { return -EEXIST }
            entries.append(Entry(number: number, file: file, events: events, token: token, seen: -1))
            file.sets.append(self)
        case Int32(EPOLL_CTL_MOD):
            guard let index else { return -ENOENT }
            (entries[index].events, entries[index].token, entries[index].seen) = (events, token, -1)
        default:
            guard let index else { return -ENOENT }
            entries.remove(at: index)
            if let place = file.sets.firstIndex(where: { $0 === self }) { file.sets.remove(at: place) }
        }
        noteChange()
        return 0
    }

    /// A set forgets a file when its last descriptor is closed.
    private func forgetClosed() { entries.removeAll { $0.file.isClosed } }

    private func reported(_ entry: Entry) -> UInt32 {
        guard !entry.file.isClosed else { return 0 }
        let ready = entry.file.readiness & (entry.events | Ready.error | Ready.hangUp)
        return entry.events & Ready.edge != 0 && entry.seen == stamp(entry.file) ? 0 : ready
    }

    private func stamp(_ file: OpenFile) -> Int { (file as? EpollFile)?.allChanges ?? file.changes }
    private var allChanges: Int { entries.reduce(changes) { $0 + ($1.file.isClosed ? 0 : stamp($1.file)) } }

    var hasReady: Bool { entries.contains { reported($0) != 0 } }
    override var readiness: UInt32 { hasReady ? Ready.readable : 0 }
    override var alarm: UInt64? { entries.compactMap { $0.file.isClosed ? nil : $0.file.alarm }.min() }

    /// Takes what is ready, from an entry on that the seed chooses.
    func take(_ most: Int, _ body: (_ index: Int, _ events: UInt32, _ token: UInt64) -> Void) -> Int {
        forgetClosed()
        guard !entries.isEmpty else { return 0 }
        var count = 0
        let start = machine.chance.below(entries.count)
        for step in entries.indices where count < most {
            let index = (start + step) % entries.count
            let events = reported(entries[index])
            guard events != 0 else { continue }
            entries[index].seen = stamp(entries[index].file)
            body(count, events, entries[index].token)
            count += 1
        }
        return count
    }
}
