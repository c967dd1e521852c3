import Foundation
import Testing

struct ManifestTests {
    /// SwiftPM prefers a dependency's product to a dependent's own target of the same name, without a word.
    @Test func `the products are the libraries and portctl`() throws {
        let manifest = try Repository.text("Package.swift")
        let products = manifest.matches(of: /\.(?:library|executable|plugin)\(\s*name: "?(\w+)/).map { String($0.1) }
        let libraries = [
            "RunLoops", "Ports", "TypedPorts", "CoreFoundationPorts", "CFPorts", "FoundationPorts", "ZeroMQ",
        ]
        #expect(products == libraries + ["portctl"])
        #expect(!manifest.contains("products."), "products are added where this test does not see them")
    }
}
