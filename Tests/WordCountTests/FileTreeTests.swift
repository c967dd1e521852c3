import Foundation
import OwnThread
import TestSupport
import Testing

@testable import wordcount

@Suite(.ownThread) struct FileTreeTests {
    /// A folder with some of everything.
    private func makeFolder() throws -> TemporaryFolder {
        let folder = TemporaryFolder()
        for directory in ["dir", "dir/empty", "dir/sub", "dir/sub/sub", "dir/.hidden", "dir/a\nb", "-d"] {
            try folder.makeDirectory(directory)
        }
        for file in ["top", "dir/a", "dir/.b", "dir/sub/c", "dir/sub/sub/d", "dir/.hidden/e", "dir/a\nb/f g", "-d/x"] {
            try folder.makeFile(file, file)
        }
        try folder.makeFile([UInt8]("dir/\u{1}'\\") + [0xff, 0xc3], [UInt8]("caf\u{e9}\n"))
        try folder.makeLink("dir/to-file", to: "a")
        try folder.makeLink("dir/to-directory", to: "sub")
        try folder.makeLink("dir/to-parent", to: "..")
        try folder.makeLink("dir/dangling", to: "nothing")
        try folder.makeLink("dir/loop", to: "loop")
        try folder.makeLink("link", to: "dir")
        try folder.makeLink("file-link", to: "top")
        try folder.makeFIFO("dir/fifo")
        try folder.makeFIFO("fifo")
        return folder
    }

    private func expectAsFind(_ roots: [String], sourceLocation: SourceLocation = #_sourceLocation) throws {
        let roots = roots.map { [UInt8]($0) }
        let tree = FileTree(at: roots)
        let list = try run("xargs -0 sh -c 'find \"$@\" -type f -print0' sh", input: roots.flatMap { $0 + [0] })
        let found = list.output.split(separator: 0).map(Array.init)
        #expect(sorted(tree.files.map(\.path)).map(text) == sorted(found).map(text), sourceLocation: sourceLocation)
        #expect(tree.errors.isEmpty, sourceLocation: sourceLocation)
        #expect(list.errors.isEmpty, sourceLocation: sourceLocation)

        let ours = try output(of: report(at: roots)).output
        let theirs = try wc(sorted(found)).output
        #expect(text(ours) == text(theirs), sourceLocation: sourceLocation)
    }

    @Test(arguments: [
        "", "dir", "dir/", "dir//", "dir///", "dir/.", "dir/../dir/sub", "top", "dir/empty", "link/", "-d",
    ])
    func rootsAreSpelledAsFindDoes(root: String) throws {
        let folder = try makeFolder()
        try expectAsFind([folder.path + "/" + root])
        if root.isEmpty { try expectAsFind([folder.path]) }
    }

    @Test func severalRoots() throws {
        let folder = try makeFolder()
        try expectAsFind(["dir", "-d", "top", "dir/sub", "dir/"].map { folder.path + "/" + $0 })
        #expect(FileTree(at: []).files.isEmpty)
    }

    /// The trees at paths which are relative to the folder, or absolute with the folder as the root directory.
    private func trees(at roots: [String], in folder: TemporaryFolder) throws -> [FileTree] {
        // Not the folder, which the thread might be the last to release: nothing can be started in its root directory.
        try LinuxThread.alone { [path = folder.path] in
            try systemCall { chroot(path) }
            try systemCall { chdir("/") }
            return roots.map { FileTree(at: [[UInt8]($0)]) }
        }
    }

    @Test(.enabled(if: geteuid() == 0, "chroot is for root"))
    func relativeRootsAndTheRootDirectory() throws {
        let folder = try makeFolder()
        let list = try run("find . -type f -print0", in: folder.path).output.split(separator: 0)
        let names = list.map { Array($0.dropFirst(2)) }
        #expect(names.count == 9)

        let prefixes = [".": "./", "./": "./", ".//": ".//", "/": "/", "//": "//", "/.": "/./"]
        let roots = Array(prefixes.keys)
        let trees = try trees(at: roots, in: folder)
        for (root, tree) in zip(roots, trees) {
            let expected = names.map { [UInt8](prefixes[root] ?? "") + $0 }
            #expect(sorted(tree.files.map(\.path)).map(text) == sorted(expected).map(text))
            #expect(tree.errors.isEmpty)
        }

        let dashes = try self.trees(at: ["-d", "top"], in: folder)
        #expect(dashes.map { $0.files.map(\.path) } == [[[UInt8]("-d/x")], [[UInt8]("top")]])
    }

    @Test func sizes() throws {
        let folder = try makeFolder()
        try systemCall { truncate(folder.at("top").cString, 5_000_000_000) }
        #expect(FileTree(at: [folder.at("top")]).files == [.init(path: folder.at("top"), size: 5_000_000_000)])
        #expect(FileTree(at: [folder.at("dir/empty/../a")]).files.map(\.size) == [5])
    }

    @Test func errorsDoNotStopTheRest() throws {
        let folder = try makeFolder()
        let failures: [([UInt8], IOError)] = [
            (folder.at("missing"), .system(errno: ENOENT)),
            ([], .system(errno: ENOENT)),
            (folder.at("top/"), .system(errno: ENOTDIR)),
            (folder.at("dir/loop/x"), .system(errno: ELOOP)),
            (folder.at(String(repeating: "x", count: 300)), .system(errno: ENAMETOOLONG)),
            (folder.at("link"), .notRegularFile),
            (folder.at("file-link"), .notRegularFile),
            (folder.at("dir/dangling"), .notRegularFile),
            (folder.at("fifo"), .notRegularFile),
            ([UInt8]("/dev/null"), .notRegularFile),
        ]
        let roots = [folder.at("top")] + failures.map(\.0) + [folder.at("dir/sub")]
        let tree = FileTree(at: roots)
        #expect(tree.errors == failures.map { FileError(path: $0, reason: $1) })
        #expect(
            sorted(tree.files.map(\.path)) == [
                folder.at("dir/sub/c"), folder.at("dir/sub/sub/d"), folder.at("top"),
            ])
    }

    /// The file system user of a thread is its own in Linux, so this disturbs no other test.
    @Test func unreadableDirectoriesAndFiles() throws {
        let folder = try makeFolder()
        try systemCall { chmod(folder.path, 0o755) }
        try systemCall { chmod(folder.at("dir/sub").cString, 0) }
        try systemCall { chmod(folder.at("dir/a").cString, 0) }
        defer { chmod(folder.at("dir/sub").cString, 0o755) }

        let (tree, counts) = LinuxThread.withoutPrivileges {
            (FileTree(at: [folder.at("dir")]), Result { try Counts.ofFile(atPath: folder.at("dir/a")) })
        }

        #expect(tree.errors == [FileError(path: folder.at("dir/sub"), errno: EACCES)])
        #expect(tree.files.contains { $0.path == folder.at("dir/.hidden/e") })
        #expect(throws: FileError(path: folder.at("dir/a"), errno: EACCES)) { try counts.get() }
    }

    @Test func deepTree() throws {
        let folder = TemporaryFolder()
        var path = ""
        for depth in 0..<1900 {
            try folder.makeDirectory(path + "d")
            path += "d/"
            if depth % 100 == 0 { try folder.makeFile(path + "f", "deep\n") }
        }
        try expectAsFind([folder.path])
    }

    /// No path to the lower part is short enough for the system, `wc` could not open the files there either.
    @Test func treeDeeperThanPathsReach() throws {
        let folder = TemporaryFolder()
        try folder.makeFile("file")
        let script = "mkdir tower; cd tower; i=0; while [ $i -lt 30 ]; do mkdir $1; cd -P ./$1; i=$((i+1)); done"
        _ = try run(script, String(repeating: "n", count: 200), in: folder.path)
        let tree = FileTree(at: [[UInt8](folder.path)])
        #expect(tree.files.map(\.path) == [folder.at("file")])
        #expect(tree.errors.map(\.reason) == [.system(errno: ENAMETOOLONG)])
    }

    @Test func wideTree() throws {
        let folder = TemporaryFolder()
        for index in 0..<3000 { try folder.makeFile("\(index)", "x y\n") }
        try expectAsFind([folder.path])
    }

    @Test func descriptorsAreClosed() throws {
        let folder = try makeFolder()
        let roots = [[UInt8](folder.path), folder.at("missing"), [UInt8]("/proc/self/mem")]
        let (before, after) = try LinuxThread.alone {
            let before = try FileManager.default.contentsOfDirectory(atPath: "/proc/thread-self/fd")
            _ = report(at: roots)
            _ = try? Counts.ofFile(atPath: roots[0])
            let after = try FileManager.default.contentsOfDirectory(atPath: "/proc/thread-self/fd")
            return (before.count, after.count)
        }
        #expect(before == after)
    }
}
