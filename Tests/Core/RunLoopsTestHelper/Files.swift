import Glibc
import RunLoops
import TestSupport

/// The user has no inotify instance left, which is not to be taken for a lack of descriptors.
func runOutOfInstances() throws {
    var sources: [ThreadRunLoop.Source1] = []
    let limit = number(in: "/proc/sys/user/max_inotify_instances") ?? 0
    do {
        while true { sources.append(try .file("/") { _ in }) }
    } catch {
        check(error == .outOfFileSources(limit: limit), "\(error)")
        check("\(error)".contains("\(limit) ") && "\(error)".contains("max_user_instances"), "\(error)")
    }
    check(sources.count == limit, "\(sources.count) sources")
    sources.removeLast()
    sources.append(try .file("/") { _ in })
}

/// The user has no inotify watch left.
func runOutOfWatches() throws {
    var sources: [ThreadRunLoop.Source1] = []
    let (limit, used) = (number(in: "/proc/sys/user/max_inotify_watches") ?? 0, openDescriptors())
    do {
        while true { sources.append(try .file("/") { _ in }) }
    } catch {
        check(error == .outOfFileWatches(limit: limit), "\(error)")
        check("\(error)".contains("\(limit) ") && "\(error)".contains("max_user_watches"), "\(error)")
    }
    check(sources.count == limit, "\(sources.count) sources")
    sources = []
    check(openDescriptors() == used, "\(openDescriptors()) descriptors")
}

/// What the user may not read cannot be watched.
func watchWithoutPermission() throws {
    var template = Array("/tmp/no-permission-XXXXXX".utf8CString)
    check(mkdtemp(&template) != nil, "no directory")
    let path = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    defer { rmdir(path) }
    // The administrator may read everything.
    let user = geteuid()
    if user == 0 { check(seteuid(65534) == 0, "cannot become another user") } else { chmod(path, 0) }
    for path in [path, path + "/inside"] {
        do {
            _ = try ThreadRunLoop.Source1.file(path) { _ in }
            fail("\(path) is watched")
        } catch {
            check(error == .noPermission(path: path) && "\(error)".contains(path), "\(error)")
        }
    }
    if user == 0 { check(seteuid(0) == 0, "cannot become the user again") }
}

/// The file system of what is watched goes; whoever starts this has mounted one at /mnt.
func unmountWhatIsWatched() throws {
    let loop = ThreadRunLoop.current
    // Sound: one thread.
    nonisolated(unsafe) var told: [ThreadRunLoop.FileEvents] = []
    let source = try ThreadRunLoop.Source1.file("/mnt", [.entryCreated]) { change in
        told.append(change.events)
        // The main loop has its main queue, and is not over.
        loop.stop()
    }
    try loop.add(source)
    check(umount("/mnt") == 0, "cannot unmount")
    let result = try loop.runInMode(.default, seconds: 20)
    check(told == [.unmounted] && result == .stopped && !source.isValid, "\(told), \(result)")
}
