// swift-tools-version: 6.3
import PackageDescription

let ports = Target.Dependency.product(name: "TypedPorts", package: "swift-ports")
let tracing: [Target.Dependency] = [
    ports, .product(name: "PortsTracing", package: "swift-ports"),
    .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
]

// A package of its own, so that who uses the library fetches none of it.
let package = Package(
    name: "Companions",
    dependencies: [
        .package(name: "swift-ports", path: "../..", traits: ["Ports", "Metrics", "Tracing"]),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
    ],
    targets: [
        .executableTarget(
            name: "service-check",
            dependencies: [
                .product(name: "Ports", package: "swift-ports"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]),
        // What the pages of the modules show.
        .target(
            name: "PageSnippets",
            dependencies: tracing + [
                .product(name: "PortsMetrics", package: "swift-ports"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]),
        .testTarget(
            name: "PortsMetricsTests",
            dependencies: [
                ports, .product(name: "PortsMetrics", package: "swift-ports"),
                .product(name: "MetricsTestKit", package: "swift-metrics"),
            ]),
        .target(name: "TracedRequests", dependencies: tracing),
        .executableTarget(name: "traced-server", dependencies: ["TracedRequests"] + tracing),
        // A measurement, which no test runs.
        .executableTarget(name: "tracing-cost", dependencies: tracing),
        .testTarget(name: "PortsTracingTests", dependencies: ["TracedRequests", "traced-server"] + tracing),
    ],
    swiftLanguageModes: [.v6]
)
