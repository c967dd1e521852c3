// swift-tools-version: 6.3
import PackageDescription

let ports = Target.Dependency.product(name: "Ports", package: "swift-ports")
let runLoops = Target.Dependency.product(name: "RunLoops", package: "swift-ports")
let typedPorts = Target.Dependency.product(name: "TypedPorts", package: "swift-ports")
let workers = Target.Dependency.product(name: "Workers", package: "swift-ports")
let metrics = Target.Dependency.product(name: "PortsMetrics", package: "swift-ports")
let lifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let tracing: [Target.Dependency] = [
    typedPorts, .product(name: "PortsTracing", package: "swift-ports"), .product(name: "XPC", package: "swift-ports"),
    .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
]
let natsPorts = Target.Dependency.product(name: "NATSPorts", package: "swift-ports")
let nio: [Target.Dependency] = [
    .product(name: "NIOCore", package: "swift-nio"), .product(name: "NIOPosix", package: "swift-nio"),
]

// Ports beside other packages: in the event loops of poll, GLib and SwiftNIO, as a service, counted and traced. A package
// of its own, so that a user of the library fetches none of the others.
let package = Package(
    name: "Companions",
    dependencies: [
        .package(name: "swift-ports", path: "../..", traits: ["Ports", "CommandLine", "Metrics", "Tracing", "NATS"]),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
    ],
    targets: [
        .systemLibrary(name: "CGLib", pkgConfig: "glib-2.0", providers: [.apt(["libglib2.0-dev"])]),
        .target(name: "Asking", dependencies: [ports, runLoops]),
        .executableTarget(name: "ports-in-poll", dependencies: [ports, "Asking"], exclude: ["expected.txt"]),
        .executableTarget(name: "ports-in-glib", dependencies: [ports, "Asking", "CGLib"], exclude: ["expected.txt"]),
        .executableTarget(name: "ports-in-nio", dependencies: [ports, "Asking"] + nio, exclude: ["expected.txt"]),
        .target(name: "Chores", dependencies: [runLoops]),
        .target(name: "DrivenLoop", dependencies: [runLoops]),
        .executableTarget(name: "loop-in-epoll", dependencies: ["Chores", "DrivenLoop"], exclude: ["expected.txt"]),
        .executableTarget(
            name: "loop-in-glib", dependencies: [runLoops, "Chores", "CGLib"], exclude: ["expected.txt"]),
        .executableTarget(name: "loop-in-nio", dependencies: [runLoops, "Chores"] + nio, exclude: ["expected.txt"]),
        .executableTarget(
            name: "glib-in-loop", dependencies: [runLoops, "Chores", "CGLib"], exclude: ["expected.txt"]),
        .executableTarget(name: "service-check", dependencies: [ports, lifecycle]),
        .executableTarget(name: "pool-service", dependencies: [workers, lifecycle], exclude: ["expected.txt"]),
        // The snippets of the pages of the modules.
        .target(name: "PageSnippets", dependencies: tracing + [metrics, natsPorts, lifecycle]),
        .testTarget(
            name: "PortsMetricsTests",
            dependencies: [
                typedPorts, workers, metrics, .product(name: "Activation", package: "swift-ports"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
            ]),
        .target(name: "TracedRequests", dependencies: tracing),
        .executableTarget(name: "traced-server", dependencies: ["TracedRequests"] + tracing),
        // A measurement, which no test runs.
        .executableTarget(name: "tracing-cost", dependencies: tracing),
        // Requests over NATS, and a program that serves and asks.
        .target(name: "FarRequests", dependencies: [typedPorts]),
        .executableTarget(name: "far-peer", dependencies: ["FarRequests", typedPorts, natsPorts]),
        .executableTarget(name: "far-notes", dependencies: [typedPorts, natsPorts]),
        .testTarget(
            name: "NATSPortsTests",
            dependencies: [
                "FarRequests", "far-peer", "far-notes", natsPorts, runLoops, metrics,
                .product(name: "portctl", package: "swift-ports"),
            ] + tracing),
        .testTarget(name: "PortsTracingTests", dependencies: ["TracedRequests", "traced-server"] + tracing),
    ],
    swiftLanguageModes: [.v6]
)
