// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that who uses the library builds none of it.
let package = Package(
    name: "Benchmarks",
    dependencies: [.package(name: "swift-ports", path: "..")],
    targets: [
        .target(name: "CBench", linkerSettings: [.linkedLibrary("zmq")]),
        .executableTarget(
            name: "bench",
            dependencies: [
                "CBench", .product(name: "Ports", package: "swift-ports"),
                .product(name: "RunLoops", package: "swift-ports"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
