import Foundation
import TestSupport

/// Tests/CFMessagePortProgram, compiled with the toolchain's clang and linked with the library for C.
enum CProgram {
    static let path = compile("CFMessagePortProgram/behaviour.c")

    /// The names of the behaviours that it checks.
    static let behaviours: [String] = {
        let run = Run([path])
        run.child.wait()
        return String(decoding: run.output, as: UTF8.self).split(separator: "\n").map(String.init)
    }()

    /// The leaks that are none.
    static let leaks = "\(tests)/CFMessagePortProgram/leaks.txt"

    private static let tests = #filePath.split(separator: "/").dropLast(2).map { "/" + $0 }.joined()
    private static let folder = TemporaryFolder()

    /// The folder of the toolchain that the library with CoreFoundation belongs to.
    private static let toolchain: String = {
        let file = FileHandle(forReadingAtPath: "/proc/self/maps")
        let maps = String(decoding: file?.readDataToEndOfFile() ?? Data(), as: UTF8.self)
        let library =
            maps.split(separator: "\n").first { $0.hasSuffix("/libFoundation.so") }?.split(separator: " ").last ?? ""
        return library.split(separator: "/").dropLast(4).map { "/" + $0 }.joined()
    }()

    private static let sanitizer =
        isThreadSanitized
        ? "-fsanitize=thread"
        : dlsym(UnsafeMutableRawPointer(bitPattern: 0), "__asan_init") == nil ? "" : "-fsanitize=address"

    /// Installs the library for C, and compiles a file with what pkg-config says of it, and nothing else.
    private static func compile(_ file: String) -> String {
        let script = """
            set -e
            make -s -C "$0/.." install-library LIBRARY="$1/libCFPorts.so" DESTDIR="$2" PREFIX=/usr
            export PKG_CONFIG_PATH="$2/usr/lib/pkgconfig"
            clang -g -Wall -Werror "$0/$3" -o "$2/program" $(pkg-config --cflags --libs CoreFoundationPorts) $4
            """
        let run = Run(
            ["/bin/bash", "-c", script, tests, Child.folder, folder.path, file, sanitizer],
            environment: ["PATH": "\(toolchain)/bin:/usr/bin:/bin"])
        precondition(run.child.wait() == 0, String(decoding: run.errors, as: UTF8.self))
        return "\(folder.path)/program"
    }
}
