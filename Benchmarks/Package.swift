// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that who uses the library builds none of it.
let package = Package(
    name: "Benchmarks",
    dependencies: [
        .package(name: "swift-ports", path: ".."),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
    ],
    targets: [
        .target(name: "CBench", linkerSettings: [.linkedLibrary("zmq")]),
        .executableTarget(
            name: "instructions",
            dependencies: [
                .product(name: "Ports", package: "swift-ports"), .product(name: "RunLoops", package: "swift-ports"),
            ]),
        .executableTarget(
            name: "bench",
            dependencies: [
                "CBench", .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Histogram", package: "hdrhistogram-swift"),
                .product(name: "Ports", package: "swift-ports"),
                .product(name: "RunLoops", package: "swift-ports"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
            ],
            // Where CFRunLoop is: `import CoreFoundation` declares it, and links nothing.
            linkerSettings: [.linkedLibrary("Foundation")]
        ),
    ],
    swiftLanguageModes: [.v6]
)
