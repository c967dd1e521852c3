// swift-tools-version: 6.3
import PackageDescription

// A package of its own, so that who uses the library needs neither GLib nor SwiftNIO.
let ports: [Target.Dependency] = [.product(name: "Ports", package: "swift-ports"), "Asking"]
let runLoops: Target.Dependency = .product(name: "RunLoops", package: "swift-ports")
let package = Package(
    name: "OtherLoops",
    dependencies: [
        .package(name: "swift-ports", path: "../.."),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
    ],
    targets: [
        .systemLibrary(name: "CGLib", pkgConfig: "glib-2.0", providers: [.apt(["libglib2.0-dev"])]),
        .target(
            name: "Asking",
            dependencies: [.product(name: "Ports", package: "swift-ports"), runLoops]),
        .executableTarget(name: "ports-in-poll", dependencies: ports, exclude: ["expected.txt"]),
        .executableTarget(name: "ports-in-glib", dependencies: ports + ["CGLib"], exclude: ["expected.txt"]),
        .executableTarget(
            name: "ports-in-nio",
            dependencies: ports + [
                .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
            ], exclude: ["expected.txt"]),
        .target(name: "Chores", dependencies: [runLoops]),
        .target(name: "DrivenLoop", dependencies: [runLoops]),
        .executableTarget(name: "loop-in-epoll", dependencies: ["Chores", "DrivenLoop"], exclude: ["expected.txt"]),
        .executableTarget(
            name: "loop-in-glib", dependencies: [runLoops, "Chores", "CGLib"], exclude: ["expected.txt"]),
        .executableTarget(
            name: "loop-in-nio",
            dependencies: [
                runLoops, "Chores", .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
            ], exclude: ["expected.txt"]),
        .executableTarget(
            name: "glib-in-loop", dependencies: [runLoops, "Chores", "CGLib"], exclude: ["expected.txt"]),
    ],
    swiftLanguageModes: [.v6]
)
