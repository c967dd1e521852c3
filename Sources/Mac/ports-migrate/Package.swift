// swift-tools-version: 6.3
import PackageDescription

let syntax = ["SwiftSyntax", "SwiftParser", "SwiftParserDiagnostics"]
    .map { Target.Dependency.product(name: $0, package: "swift-syntax") }

// The program that moves Swift files over from macOS. A package of its own, so that a user of the library does not build
// swift-syntax.
let package = Package(
    name: "ports-migrate",
    products: [.executable(name: "ports-migrate", targets: ["ports-migrate"])],
    dependencies: [
        .package(url: "https://github.com/swiftlang/swift-syntax", from: "603.0.1"),
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
    ],
    targets: [
        .target(name: "Migration", dependencies: syntax),
        .executableTarget(
            name: "ports-migrate",
            dependencies: ["Migration", .product(name: "ArgumentParser", package: "swift-argument-parser")]),
        .testTarget(name: "MigrationTests", dependencies: ["Migration", "ports-migrate"]),
    ],
    swiftLanguageModes: [.v6]
)
