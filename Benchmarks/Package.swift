// swift-tools-version: 6.3
import PackageDescription

// The peers that `make bench-all` adds: those that the machine has the libraries of.
let peers = Set((Context.environment["BENCH_PEERS"] ?? "").split(separator: " ").map(String.init))
var peerPackages: [Package.Dependency] = []
var peerTargets: [Target] = []
var peerDependencies: [Target.Dependency] = []
var peerConditions: [SwiftSetting] = []
if peers.contains("sd-bus") {
    peerTargets.append(.systemLibrary(name: "CSystemd", providers: [.apt(["libsystemd-dev"])]))
    peerDependencies.append("CSystemd")
    peerConditions.append(.define("SD_BUS"))
}
if peers.contains("SocketPort") { peerConditions.append(.define("SOCKET_PORT")) }
if peers.contains("grpc-swift") {
    peerPackages.append(.package(url: "https://github.com/grpc/grpc-swift-nio-transport", from: "2.9.2"))
    peerPackages.append(.package(url: "https://github.com/grpc/grpc-swift-2", from: "2.4.3"))
    peerDependencies.append(.product(name: "GRPCCore", package: "grpc-swift-2"))
    peerDependencies.append(.product(name: "GRPCNIOTransportHTTP2Posix", package: "grpc-swift-nio-transport"))
    peerConditions.append(.define("GRPC"))
}
if peers.contains("libqb") {
    peerTargets.append(.systemLibrary(name: "CLibQB", providers: [.apt(["libqb-dev"])]))
    peerDependencies.append("CLibQB")
    peerConditions.append(.define("LIBQB"))
}

if peers.contains("NATS") {
    peerTargets.append(.systemLibrary(name: "CNATSClient", providers: [.apt(["libnats-dev"])]))
    peerDependencies += ["CNATSClient", .product(name: "NATSPorts", package: "swift-ports")]
    peerConditions.append(.define("NATS_PEER"))
}

// A package of its own, so that who uses the library builds none of it.
let package = Package(
    name: "Benchmarks",
    dependencies: [
        .package(name: "swift-ports", path: "..", traits: peers.contains("NATS") ? [.defaults, "NATS"] : [.defaults]),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    ] + peerPackages,
    targets: [
        .target(name: "CBench", linkerSettings: [.linkedLibrary("zmq")]),
        .executableTarget(
            name: "instructions",
            dependencies: [
                .product(name: "Ports", package: "swift-ports"), .product(name: "RunLoops", package: "swift-ports"),
                .product(name: "TypedPorts", package: "swift-ports"),
            ]),
        .executableTarget(
            name: "bench",
            dependencies: [
                "CBench", .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
                .product(name: "Ports", package: "swift-ports"),
                .product(name: "RunLoops", package: "swift-ports"),
                .product(name: "FoundationPorts", package: "swift-ports"),
                .product(name: "TypedPorts", package: "swift-ports"),
                .product(name: "Workers", package: "swift-ports"),
                .product(name: "XPC", package: "swift-ports"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
            ] + peerDependencies,
            swiftSettings: peerConditions
        ),
    ] + peerTargets,
    swiftLanguageModes: [.v6]
)
