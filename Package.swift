// swift-tools-version: 6.3
import PackageDescription

let argumentParser = Target.Dependency.product(
    name: "ArgumentParser", package: "swift-argument-parser", condition: .when(traits: ["CommandLine"]))

let package = Package(
    name: "swift-ports",
    products: [
        .library(name: "RunLoops", targets: ["RunLoops"]),
        .library(name: "Ports", targets: ["Ports"]),
        .library(name: "TypedPorts", targets: ["TypedPorts"]),
        .library(name: "FoundationCoding", targets: ["FoundationCoding"]),
        .library(name: "Workers", targets: ["Workers"]),
        .library(name: "Activation", targets: ["Activation"]),
        .library(name: "Systemd", targets: ["Systemd"]),
        .library(name: "PortsInspection", targets: ["PortsInspection"]),
        .library(name: "PortsMetrics", targets: ["PortsMetrics"]),
        .library(name: "PortsTracing", targets: ["PortsTracing"]),
        .library(name: "NATSPorts", targets: ["NATSPorts"]),
        .library(name: "CoreFoundationPorts", targets: ["CoreFoundationPorts"]),
        // For C: `make install` installs it as libCoreFoundationPorts.so.
        .library(name: "CFPorts", type: .dynamic, targets: ["CoreFoundationPorts"]),
        .library(name: "FoundationPorts", targets: ["FoundationPorts"]),
        .library(name: "DarwinNames", targets: ["DarwinNames"]),
        .library(name: "XPC", targets: ["XPC"]),
        .executable(name: "portctl", targets: ["portctl"]),
    ],
    // A package names the traits of what it uses, and fetches no more. One trait alone is the default: SwiftPM passes traits to
    // the compiler in the order of a set, and another order builds everything again.
    traits: [
        .default(enabledTraits: ["Ports"]),
        .trait(name: "Ports", description: "The library Ports, which needs swift-log."),
        .trait(
            name: "CommandLine", description: "The commands portctl and wordcount, which need swift-argument-parser."),
        .trait(name: "Metrics", description: "The library PortsMetrics, which needs swift-metrics."),
        .trait(name: "Tracing", description: "The library PortsTracing, which needs swift-distributed-tracing."),
        .trait(name: "NATS", description: "The library NATSPorts, which needs libnats."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
    ],
    targets: [
        .systemLibrary(name: "CZeroMQ", providers: [.apt(["libzmq3-dev"])]),
        .target(name: "CRunLoopShims"),
        .target(name: "CAcceptGuard", dependencies: ["CZeroMQ"]),
        // For the ports alone: no product has it.
        .target(name: "ZeroMQ", dependencies: ["CZeroMQ", "RunLoopLocks"]),
        // Apart and public, so that the compiler can inline a lock into other modules. No product has it.
        .target(name: "RunLoopLocks", dependencies: ["CRunLoopShims"]),
        .target(
            name: "RunLoops",
            dependencies: [
                "CRunLoopShims", "RunLoopLocks", .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "HeapModule", package: "swift-collections"),
            ]
        ),
        .target(name: "CBOR"),
        .target(
            name: "Ports",
            dependencies: [
                "CBOR", "RunLoops", "RunLoopLocks", "ZeroMQ", "CRunLoopShims", "CAcceptGuard",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Ports"])),
            ]
        ),
        .target(name: "TypedPorts", dependencies: ["CBOR", "Ports", "RunLoopLocks"]),
        // Apart, because a static program with FoundationEssentials is several megabytes larger.
        .target(name: "FoundationCoding", dependencies: ["CBOR", "TypedPorts", "Ports"]),
        .target(
            name: "Workers",
            dependencies: [
                "TypedPorts", "Ports", "RunLoops", "RunLoopLocks", "CRunLoopShims",
                .product(name: "DequeModule", package: "swift-collections"),
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Ports"])),
            ]),
        .target(name: "Activation", dependencies: ["Workers", "TypedPorts", "Ports", "RunLoops", "RunLoopLocks"]),
        .target(name: "Systemd", dependencies: ["RunLoops", "RunLoopLocks", "CRunLoopShims"]),
        .target(
            name: "PortsInspection",
            dependencies: [
                "Ports", "RunLoops", "RunLoopLocks", .product(name: "DequeModule", package: "swift-collections"),
            ]),
        // Off unless a package names their traits: without, they say so where they are used.
        .target(
            name: "PortsMetrics",
            dependencies: [
                "TypedPorts", "Ports", "RunLoopLocks",
                .product(name: "CoreMetrics", package: "swift-metrics", condition: .when(traits: ["Metrics"])),
            ]),
        .target(
            name: "PortsTracing",
            dependencies: [
                "TypedPorts", "Ports", "RunLoopLocks",
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
            ]),
        // Headers that CoreFoundation lacks, for Swift here, and for `make install`.
        .systemLibrary(name: "CCoreFoundationPorts"),
        .systemLibrary(name: "CNATS", providers: [.apt(["libnats-dev"])]),
        .target(
            name: "NATSPorts",
            dependencies: [
                "CBOR", "FoundationCoding", "TypedPorts", "Ports", "RunLoops", "RunLoopLocks",
                .target(name: "CNATS", condition: .when(traits: ["NATS"])),
            ]),
        // The import of CoreFoundation does not link the library that has it.
        .target(
            name: "CoreFoundationPorts",
            dependencies: ["CCoreFoundationPorts", "Ports", "RunLoops", "RunLoopLocks", "CRunLoopShims"],
            linkerSettings: [.linkedLibrary("Foundation")]),
        .target(name: "FoundationPorts", dependencies: ["CoreFoundationPorts", "Ports", "RunLoops", "RunLoopLocks"]),
        .target(name: "DarwinNames"),
        .target(
            name: "XPC",
            dependencies: [
                "Activation", "PortsTracing", "FoundationCoding", "TypedPorts", "Ports", "RunLoops", "RunLoopLocks",
                .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
            ]),
        // No code: where the documentation begins.
        .target(
            name: "SwiftPortsGuide",
            dependencies: [
                "RunLoops", "Ports", "TypedPorts", "FoundationCoding", "Workers", "Activation", "Systemd",
                "PortsInspection", "PortsMetrics",
                "PortsTracing", "NATSPorts", "FoundationPorts", "CoreFoundationPorts", "XPC",
            ]),
        .executableTarget(
            name: "portctl",
            dependencies: [
                "Activation", "Systemd", "NATSPorts", "Ports", "PortsInspection", "RunLoops", "ZeroMQ",
                argumentParser,
            ],
            // For `make install`.
            exclude: ["Units"],
            resources: [.embedInCode("Pages")]
        ),
        .executableTarget(
            name: "wordcount", dependencies: ["Ports", "RunLoops", argumentParser], path: "Examples/WordCount"),
        .target(
            name: "TestSupport", dependencies: ["RunLoops", "CRunLoopShims", "HeapUse"]),
        .target(name: "HeapUse"),
        // Apart, as it needs Testing, which no program but the tests' has.
        .target(name: "OwnThread", dependencies: ["RunLoops", "TestSupport"]),
        .testTarget(name: "ZeroMQTests", dependencies: ["ZeroMQ", "TestSupport"]),
        .target(name: "Oracle", dependencies: ["RunLoops", "CRunLoopShims", "TestSupport"]),
        .executableTarget(name: "OracleHelper", dependencies: ["Oracle"]),
        .executableTarget(
            name: "AsyncMainHelper", dependencies: ["RunLoops", "TestSupport"]),
        .target(name: "TestClock"),
        .executableTarget(
            name: "RunLoopsTestHelper", dependencies: ["RunLoops", "TestClock", "TestSupport"]),
        .testTarget(
            name: "RunLoopsTests",
            dependencies: [
                "RunLoops", "CRunLoopShims", "Oracle", "OracleHelper", "RunLoopsTestHelper", "AsyncMainHelper",
                "OwnThread", "TestSupport",
            ]),
        .executableTarget(
            name: "PortsTestHelper", dependencies: ["Ports", "PortsInspection", "TestSupport"]),
        .executableTarget(name: "LoadingHelper"),
        // Optimized in any build, because a test plays many machines.
        .target(name: "SimulatedCalls", path: "Tests/SimulatedCalls", cSettings: [.unsafeFlags(["-O2"])]),
        .executableTarget(
            name: "simulate",
            dependencies: [
                "Activation", "Workers", "XPC", "TypedPorts", "Ports", "PortsInspection", "RunLoops", "CRunLoopShims",
                "SimulatedCalls",
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Ports"])),
            ], path: "Tests/Simulation", exclude: ["Plants", "coverage", "plants", "played.txt"],
            swiftSettings: [.unsafeFlags(["-O", "-enforce-exclusivity=unchecked"])]),
        .executableTarget(name: "EndingHelper", dependencies: ["Ports", "RunLoops"]),
        .target(
            name: "FuzzTargets",
            dependencies: [
                "FoundationCoding", "NATSPorts", "Ports", "PortsInspection", "RunLoops", "TypedPorts", "ZeroMQ",
            ]),
        .testTarget(
            name: "PortsTests",
            dependencies: [
                "Ports", "PortsInspection", "CRunLoopShims", "ZeroMQ", "PortsTestHelper", "LoadingHelper",
                "EndingHelper",
                "FuzzTargets", "OwnThread", "TestSupport",
            ]),
        // Without `simulate` among them: its functions would take the place of the C library's in all tests.
        .testTarget(name: "SimulationTests", dependencies: ["OwnThread", "TestSupport"]),
        .executableTarget(
            name: "TypedPortsTestHelper", dependencies: ["TypedPorts", "Ports", "TestSupport"]),
        .testTarget(
            name: "TypedPortsTests",
            dependencies: [
                "FoundationCoding", "TypedPorts", "Ports", "PortsInspection", "TypedPortsTestHelper", "FuzzTargets",
                "PortsTestHelper",
                "workers", "OwnThread",
                "TestSupport",
            ]),
        .executableTarget(
            name: "WorkersTestHelper", dependencies: ["Workers", "TestSupport"]),
        .executableTarget(
            name: "ActivationTestHelper", dependencies: ["Activation", "TestSupport"]),
        .testTarget(
            name: "ActivationTests", dependencies: ["Activation", "ActivationTestHelper", "OwnThread", "TestSupport"]),
        .executableTarget(
            name: "SystemdTestHelper", dependencies: ["Systemd", "TypedPorts", "TestSupport"]),
        .testTarget(
            name: "SystemdTests",
            dependencies: [
                "Systemd", "RunLoops", "CRunLoopShims", "SystemdTestHelper", "ActivationTestHelper",
                "portctl", "daemon", "OwnThread",
                "TestSupport",
            ]),
        .testTarget(
            name: "WorkersTests",
            dependencies: [
                "Workers", "PortsInspection", "WorkersTestHelper", "OwnThread", "TestSupport",
                .product(name: "Logging", package: "swift-log", condition: .when(traits: ["Ports"])),
            ]),
        .testTarget(
            name: "CoreFoundationPortsTests",
            dependencies: ["CoreFoundationPorts", "DarwinNames", "Ports", "OwnThread", "TestSupport"]),
        .executableTarget(
            name: "FoundationPortsTestHelper", dependencies: ["FoundationPorts", "Ports"]),
        .executableTarget(
            name: "FoundationAsyncMainHelper", dependencies: ["FoundationPorts"]),
        // Files as they are written on macOS, in both modes of the language.
        .target(
            name: "MacFiles5", dependencies: ["FoundationPorts", "DarwinNames", "TypedPorts"],
            path: "Tests/Mac/MacFiles/Swift5",
            swiftSettings: [.swiftLanguageMode(.v5)]),
        .target(
            name: "MacFiles6", dependencies: ["FoundationPorts", "DarwinNames", "TypedPorts"],
            path: "Tests/Mac/MacFiles/Swift6"),
        // ports-migrate makes these files of Tests/Mac/MacFiles/Before.
        .target(
            name: "MigratedMacFiles", dependencies: ["FoundationPorts", "DarwinNames"],
            path: "Tests/Mac/MacFiles/Migrated",
            swiftSettings: [.swiftLanguageMode(.v5)]),
        .testTarget(
            name: "FoundationPortsTests",
            dependencies: [
                "FoundationPorts", "Ports", "RunLoops", "FoundationPortsTestHelper", "FoundationAsyncMainHelper",
                "MacFiles5", "MacFiles6",
                "MigratedMacFiles", "OwnThread", "TestSupport",
            ]),
        .executableTarget(name: "XPCTestHelper", dependencies: ["XPC", "TestSupport"]),
        .testTarget(
            name: "XPCTests",
            dependencies: [
                "XPC", "Activation", "TypedPorts", "Ports", "PortsInspection", "XPCTestHelper", "OwnThread",
                "TestSupport",
            ]),
        .testTarget(name: "WordCountTests", dependencies: ["wordcount", "OwnThread", "TestSupport"]),
        .testTarget(
            name: "PortctlTests",
            dependencies: [
                "portctl", "Ports", "PortsInspection", "PortsTestHelper", "ActivationTestHelper", "RunLoops",
                "FuzzTargets", "OwnThread",
                "TestSupport", "WorkersTestHelper", "XPCTestHelper",
            ]),
        .testTarget(
            name: "MovingOverTests",
            dependencies: ["loadd-corefoundation", "loadd-ports", "loadd-typedports", "OwnThread", "TestSupport"]),
        .testTarget(
            name: "ReadmeTests", dependencies: ["dictionary", "greeter", "noted", "notes", "OwnThread", "TestSupport"]),
    ],
    swiftLanguageModes: [.v6]
)

// The folders of the targets, but for those that name theirs.
let folders = [
    "Sources/Core": [
        "RunLoops", "RunLoopLocks", "CRunLoopShims", "CBOR", "ZeroMQ", "CZeroMQ", "CAcceptGuard", "Ports", "TypedPorts",
        "FoundationCoding", "PortsInspection",
    ],
    "Sources/Services": ["Workers", "Activation", "Systemd"],
    "Sources/Mac": ["CoreFoundationPorts", "CCoreFoundationPorts", "FoundationPorts", "XPC", "DarwinNames"],
    "Sources/Network": ["NATSPorts", "CNATS"],
    "Sources/Observability": ["PortsMetrics", "PortsTracing"],
    "Sources/Tools": ["portctl"],
    "Tests/Core": [
        "ZeroMQTests", "Oracle", "OracleHelper", "AsyncMainHelper", "TestClock", "RunLoopsTestHelper", "RunLoopsTests",
        "PortsTestHelper", "LoadingHelper", "EndingHelper", "FuzzTargets", "PortsTests", "TypedPortsTestHelper",
        "TypedPortsTests",
    ],
    "Tests/Services": [
        "WorkersTestHelper", "WorkersTests", "ActivationTestHelper", "ActivationTests", "SystemdTestHelper",
        "SystemdTests",
    ],
    "Tests/Mac": [
        "CoreFoundationPortsTests", "FoundationPortsTestHelper", "FoundationAsyncMainHelper", "FoundationPortsTests",
        "MovingOverTests", "XPCTestHelper", "XPCTests",
    ],
    "Tests/Tools": ["PortctlTests"],
    "Tests/Support": ["TestSupport", "HeapUse", "OwnThread"],
]
for (folder, names) in folders {
    for target in package.targets where names.contains(target.name) { target.path = "\(folder)/\(target.name)" }
}

// The examples: the folder of each, its command, and what it needs. None is a product: a product takes the place of a
// dependent's target of the same name. SwiftPM builds and runs them here all the same.
let ports: [Target.Dependency] = ["Ports", "RunLoops"]
for (folder, command, dependencies) in [
    ("Observer", "observer", ["RunLoops"]), ("SkeletonThread", "skeleton-thread", ["RunLoops"]),
    ("CustomSource", "custom-source", ["RunLoops"]), ("Timers", "timers", ["RunLoops"]),
    ("ResidentThread", "resident-thread", ports), ("CommonModes", "common-modes", ["RunLoops"]),
    ("IdleWork", "idle-work", ["RunLoops"]), ("StallMonitor", "stall-monitor", ["RunLoops"]),
    ("Transaction", "transaction", ["RunLoops"]), ("SocketServer", "socket-server", ["RunLoops"]),
    ("Scrolling", "scrolling", ["RunLoops"]), ("MainQueue", "main-queue", ["RunLoops"]),
    ("EventQueue", "event-queue", ["RunLoops"]), ("LoaderThread", "loader-thread", ports),
    ("Hello", "hello", ports), ("MachPortCheckIn", "mach-port-check-in", ports), ("NamedPort", "named-port", ports),
    ("MessagePorts", "message-ports", ports), ("NameService", "name-service", ports),
    ("RunLoopMessagePort", "run-loop-message-port", ["CoreFoundationPorts"]),
    ("Dictionary", "dictionary", ports + ["TypedPorts"]), ("Tally", "tally", ["RunLoops", "TypedPorts"]),
    ("Workers", "workers", ports + ["TypedPorts"]), ("Thumbnails", "thumbnails", ["Workers"]),
    ("OnDemand", "on-demand", ["Activation"]),
    ("PassDescriptor", "pass-descriptor", ["TypedPorts"]),
    ("SharedImage", "shared-image", ["TypedPorts"]), ("HotUpgrade", "hot-upgrade", ports),
    ("FoundationMachPorts", "foundation-mach-ports", ["FoundationPorts", "DarwinNames"]),
    ("FoundationMessagePorts", "foundation-message-ports", ["FoundationPorts"]),
    ("XPCService", "xpc-service", ["XPC"]),
    ("FoundationGuest", "foundation-guest", ["FoundationPorts", "RunLoops"]),
] {
    package.targets.append(
        .executableTarget(
            name: command, dependencies: dependencies, path: "Examples/\(folder)", exclude: ["expected.txt"]))
}

// The README's program, a daemon and its client.
package.targets.append(.executableTarget(name: "greeter", dependencies: ["TypedPorts"], path: "Examples/Greeter"))

// A daemon and its unit for systemd.
package.targets.append(
    .executableTarget(
        name: "daemon", dependencies: ["Systemd", "TypedPorts", "Ports"], path: "Examples/Daemon",
        exclude: ["expected.txt", "daemon.service"]))

// One daemon and its client, in the steps of the page about moving over.
for (folder, dependencies) in [
    ("CoreFoundation", ["FoundationPorts"]), ("Ports", ports), ("TypedPorts", ["TypedPorts", "RunLoops"]),
] {
    package.targets.append(
        .executableTarget(
            name: "loadd-\(folder.lowercased())", dependencies: dependencies, path: "Examples/MovingOver/\(folder)",
            // As it was on macOS.
            swiftSettings: folder == "CoreFoundation" ? [.swiftLanguageMode(.v5)] : []))
}

// The daemon of the documentation's tutorial, with its client.
package.targets += [
    .target(name: "NotesRequests", dependencies: ["TypedPorts"], path: "Examples/Notes/NotesRequests"),
    .executableTarget(name: "noted", dependencies: ["NotesRequests", "TypedPorts"], path: "Examples/Notes/noted"),
    .executableTarget(name: "notes", dependencies: ["NotesRequests", "TypedPorts"], path: "Examples/Notes/notes"),
]

// For `make fuzz` alone: its program has no `main` but libFuzzer's, which is there only with `--sanitize fuzzer`.
if Context.environment["SWIFT_PORTS_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "Fuzz", dependencies: ["FuzzTargets"], path: "Tests/Core/Fuzz", exclude: ["Corpus"],
            swiftSettings: [.unsafeFlags(["-parse-as-library"])]))
}

// For `make docs` alone: who uses the library has no need of it.
if Context.environment["SWIFT_PORTS_DOCS"] != nil {
    package.dependencies.append(.package(url: "https://github.com/swiftlang/swift-docc-plugin", from: "1.5.0"))
}
