// swift-tools-version: 6.1
import PackageDescription

// A package of its own, so that who uses the library fetches none of it.
let package = Package(
    name: "ServiceLifecycleCheck",
    dependencies: [
        .package(name: "swift-ports", path: "../..", traits: ["Ports"]),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .executableTarget(
            name: "service-check",
            dependencies: [
                .product(name: "Ports", package: "swift-ports"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ])
    ],
    swiftLanguageModes: [.v6]
)
