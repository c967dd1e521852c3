// swift-tools-version: 6.1
import PackageDescription

let package = Package(
    name: "swift-ports",
    products: [
        .library(name: "RunLoops", targets: ["RunLoops"]),
        .library(name: "Ports", targets: ["Ports"]),
        .library(name: "ZeroMQ", targets: ["ZeroMQ"]),
        .executable(name: "portctl", targets: ["portctl"]),
        .executable(name: "hello", targets: ["Hello"]),
        .executable(name: "wordcount", targets: ["WordCount"]),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    ],
    targets: [
        .systemLibrary(name: "CZeroMQ", providers: [.apt(["libzmq3-dev"])]),
        .target(name: "CRunLoopShims"),
        .target(name: "CAcceptGuard"),
        .target(name: "ZeroMQ", dependencies: ["CZeroMQ"]),
        .target(
            name: "RunLoops",
            dependencies: [
                "CRunLoopShims", .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
            ]
        ),
        .target(
            name: "Ports",
            dependencies: [
                "RunLoops", "ZeroMQ", "CRunLoopShims", "CAcceptGuard", .product(name: "Logging", package: "swift-log"),
            ]
        ),
        .executableTarget(
            name: "portctl",
            dependencies: [
                "Ports", "RunLoops", "ZeroMQ", .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ]
        ),
        .executableTarget(
            name: "Hello", dependencies: ["Ports", "RunLoops"], path: "Examples/Hello", exclude: ["expected.txt"]),
        .executableTarget(
            name: "WordCount",
            dependencies: ["Ports", "RunLoops", .product(name: "ArgumentParser", package: "swift-argument-parser")],
            path: "Examples/WordCount"
        ),
        .testTarget(name: "ZeroMQTests", dependencies: ["ZeroMQ"]),
        .target(name: "OwnThread", dependencies: ["RunLoops"], path: "Tests/OwnThread"),
        .target(name: "SplitMix64", path: "Tests/SplitMix64"),
        .target(name: "Oracle", dependencies: ["RunLoops", "SplitMix64"], path: "Tests/Oracle"),
        .executableTarget(name: "OracleHelper", dependencies: ["Oracle"], path: "Tests/OracleHelper"),
        .executableTarget(name: "AsyncMainHelper", dependencies: ["RunLoops"], path: "Tests/AsyncMainHelper"),
        .target(name: "TestClock", path: "Tests/TestClock"),
        .executableTarget(
            name: "RunLoopsTestHelper", dependencies: ["RunLoops", "TestClock"], path: "Tests/RunLoopsTestHelper"),
        .testTarget(
            name: "RunLoopsTests",
            dependencies: [
                "RunLoops", "CRunLoopShims", "Oracle", "OracleHelper", "RunLoopsTestHelper", "AsyncMainHelper",
                "OwnThread",
            ]),
        .target(name: "HeapUse", path: "Tests/HeapUse"),
        .executableTarget(name: "PortsTestHelper", dependencies: ["Ports", "HeapUse"], path: "Tests/PortsTestHelper"),
        .target(name: "FuzzTargets", dependencies: ["Ports", "ZeroMQ"], path: "Tests/FuzzTargets"),
        .testTarget(
            name: "PortsTests",
            dependencies: [
                "Ports", "CRunLoopShims", "ZeroMQ", "HeapUse", "PortsTestHelper", "FuzzTargets", "OwnThread",
                "SplitMix64",
            ]),
        .testTarget(name: "WordCountTests", dependencies: ["WordCount", "SplitMix64", "OwnThread"]),
        .testTarget(name: "PortctlTests", dependencies: ["portctl", "PortsTestHelper", "OwnThread"]),
        .testTarget(name: "ReadmeTests"),
    ],
    swiftLanguageModes: [.v6]
)

// Examples that need the run loop alone: the folder of each, and its command.
for (folder, command) in [
    ("Observer", "observer"), ("SkeletonThread", "skeleton-thread"), ("CustomSource", "custom-source"),
    ("Timers", "timers"), ("ResidentThread", "resident-thread"), ("CommonModes", "common-modes"),
    ("IdleWork", "idle-work"), ("StallMonitor", "stall-monitor"),
] {
    let target = "\(folder)Example"
    package.products.append(.executable(name: command, targets: [target]))
    package.targets.append(
        .executableTarget(
            name: target, dependencies: ["RunLoops"], path: "Examples/\(folder)", exclude: ["expected.txt"]))
}

// The same for ports.
for (folder, command, parser) in [
    ("MachPortCheckIn", "mach-port-check-in", false), ("NamedPort", "named-port", false),
    ("MessagePorts", "message-ports", false), ("NameService", "name-service", true),
] {
    let target = "\(folder)Example"
    var dependencies: [Target.Dependency] = ["Ports", "RunLoops"]
    if parser { dependencies.append(.product(name: "ArgumentParser", package: "swift-argument-parser")) }
    package.products.append(.executable(name: command, targets: [target]))
    package.targets.append(
        .executableTarget(
            name: target, dependencies: dependencies, path: "Examples/\(folder)", exclude: ["expected.txt"]))
}

// For `make fuzz` alone: its program has no `main` but libFuzzer's, which is there only with `--sanitize fuzzer`.
if Context.environment["SWIFT_PORTS_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "Fuzz", dependencies: ["FuzzTargets"], path: "Tests/Fuzz", exclude: ["Corpus"],
            swiftSettings: [.unsafeFlags(["-parse-as-library"])]))
}

// For `make docs` alone: who uses the library has no need of it.
if Context.environment["SWIFT_PORTS_DOCS"] != nil {
    package.dependencies.append(.package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0"))
}
