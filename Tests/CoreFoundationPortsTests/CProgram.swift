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
        ? ["-fsanitize=thread"]
        : dlsym(UnsafeMutableRawPointer(bitPattern: 0), "__asan_init") == nil ? [] : ["-fsanitize=address"]

    private static func compile(_ file: String) -> String {
        let tests = #filePath.split(separator: "/").dropLast(2).map { "/" + $0 }.joined()
        let (program, libraries) = ("\(folder.path)/program", "\(toolchain)/lib/swift/linux")
        let run = Run(
            [
                "\(toolchain)/bin/clang", "-g", "-Wall", "-Werror", "-fblocks", "-I\(tests)/../Headers",
                "-isystem", "\(toolchain)/lib/swift", "\(tests)/\(file)", "-o", program,
                "-L\(Child.folder)", "-lCFPorts", "-L\(libraries)", "-lFoundation", "-ldispatch", "-lBlocksRuntime",
                "-Wl,-rpath,\(Child.folder):\(libraries)",
            ] + sanitizer)
        precondition(run.child.wait() == 0, String(decoding: run.errors, as: UTF8.self))
        return program
    }
}
