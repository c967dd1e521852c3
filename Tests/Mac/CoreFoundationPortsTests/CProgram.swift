import Foundation
import TestSupport

/// A program of Tests/Mac/CFMessagePortProgram, compiled with what pkg-config says of the library for C, and nothing else.
struct CProgram {
    /// The compilers that a program for the library may be written for. Clang is the one of Swift's toolchain.
    enum Compiler: String, CaseIterable, Sendable {
        case clang, gcc, clangxx = "clang++", gxx = "g++"

        /// The compilers of C, and of C++. A sanitized library needs the sanitizer that its own compiler links.
        static let c: [Compiler] = CProgram.sanitizer == nil ? [.clang, .gcc] : [.clang]
        static let cxx: [Compiler] = CProgram.sanitizer == nil ? [.clangxx, .gxx] : [.clangxx]
    }

    static let messagePorts = CProgram("behaviour.c")
    static let fileDescriptors = CProgram("descriptors.c")
    static let machPorts = CProgram("machports.c")
    static let notifications = CProgram("notifications.c")

    private let paths: [Compiler: String]

    private init(_ file: String) {
        paths = Dictionary(
            uniqueKeysWithValues: Compiler.c.map { ($0, Self.compiled("Tests/Mac/CFMessagePortProgram/\(file)", $0)) })
    }

    /// The program that a compiler has made.
    func path(_ compiler: Compiler) -> String { paths[compiler] ?? "" }

    /// The names of the behaviours that the program checks.
    var behaviours: [String] {
        let run = Run([path(.clang)])
        run.child.wait()
        return String(decoding: run.output, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// The leaks that are none.
    static let leaks = "\(repository)/Tests/Mac/CFMessagePortProgram/leaks.txt"

    static let repository = #filePath.split(separator: "/").dropLast(4).map { "/" + $0 }.joined()
    private static let folder = TemporaryFolder()

    /// The folder of the toolchain that the library with CoreFoundation belongs to.
    static let toolchain: String = {
        let file = FileHandle(forReadingAtPath: "/proc/self/maps")
        let maps = String(decoding: file?.readDataToEndOfFile() ?? Data(), as: UTF8.self)
        let library =
            maps.split(separator: "\n").first { $0.hasSuffix("/libFoundation.so") }?.split(separator: " ").last ?? ""
        return library.split(separator: "/").dropLast(4).map { "/" + $0 }.joined()
    }()

    /// The folder with the installed library, headers and pkg-config file.
    static let installed: String = {
        run("make -s -C \"$0\" install-library LIBRARY=\"$1/libCFPorts.so\" DESTDIR=\"$2\" PREFIX=/usr", folder.path)
        return "\(folder.path)/usr"
    }()

    /// Compiles a file of the repository to a program, and returns the program's path.
    static func compiled(_ file: String, _ compiler: Compiler) -> String {
        let program = "\(folder.path)/\(file.split(separator: "/").joined(separator: "-"))-\(compiler.rawValue)"
        let options = "-g -Wall -Werror \(sanitizer.map { "-fsanitize=\($0)" } ?? "")"
        run(
            "$2 \(options) \"$0/$3\" -o \"$4\" $(pkg-config --cflags --libs CoreFoundationPorts)",
            compiler.rawValue, file, program)
        return program
    }

    /// Compiles a file of the repository in Rust to a program, and returns the program's path.
    static func compiledRust(_ file: String) -> String {
        let program = "\(folder.path)/rust"
        run(
            "rustc --edition 2021 \"$0/$2\" -o \"$3\" -C link-args=\"$(pkg-config --libs CoreFoundationPorts)\"", file,
            program)
        return program
    }

    /// Whether a command is installed.
    static func isInstalled(_ command: String) -> Bool {
        let run = Run(["/bin/sh", "-c", "command -v $0 >/dev/null", command], environment: ["PATH": path])
        // It has the files of the child's streams.
        return withExtendedLifetime(run) { run.child.wait() == 0 }
    }

    /// The remarks of a compiler on lines of C.
    static func complaints(about source: String, _ compiler: Compiler, _ options: String) -> String {
        let language = [.gxx, .clangxx].contains(compiler) ? "c++" : "c"
        return run(
            "echo \"$3\" | $2 -x \(language) \(options) -fsyntax-only $(pkg-config --cflags CoreFoundationPorts) -",
            mayFail: true, compiler.rawValue, source)
    }

    /// The sanitizer of this process, and so of the library; nil without one.
    static let sanitizer =
        isThreadSanitized
        ? "thread" : dlsym(UnsafeMutableRawPointer(bitPattern: 0), "__asan_init") != nil ? "address" : nil

    private static let path = "\(toolchain)/bin:/usr/bin:/bin:\(home)/.cargo/bin"
    private static let rustup = ProcessInfo.processInfo.environment["RUSTUP_HOME"] ?? "\(home)/.rustup"
    private static let home = NSHomeDirectory()

    @discardableResult
    private static func run(_ script: String, mayFail: Bool = false, _ words: String...) -> String {
        let isInstalling = script.hasPrefix("make")
        let run = Run(
            ["/bin/bash", "-c", "set -e; \(script)", repository, Child.folder] + words,
            environment: [
                "PATH": path, "RUSTUP_HOME": rustup,
                "PKG_CONFIG_PATH": isInstalling ? "" : "\(installed)/lib/pkgconfig",
            ])
        let status = run.child.wait()
        precondition(mayFail || status == 0, String(decoding: run.errors, as: UTF8.self))
        return String(decoding: run.errors, as: UTF8.self)
    }
}
