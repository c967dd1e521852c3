import Foundation
import Testing

struct ManifestTests {
    /// SwiftPM prefers a dependency's product to a dependent's own target of the same name, without a word.
    @Test func `the products are the libraries and portctl`() throws {
        let manifest = try Repository.text("Package.swift")
        let products = manifest.matches(of: /\.(?:library|executable|plugin)\(\s*name: "?(\w+)/).map { String($0.1) }
        let libraries = [
            "RunLoops", "Ports", "TypedPorts", "FoundationCoding", "Workers", "Activation", "Systemd",
            "PortsInspection", "PortsMetrics", "PortsTracing", "NATSPorts",
            "CoreFoundationPorts", "CFPorts", "FoundationPorts", "DarwinNames", "XPC",
        ]
        #expect(products == libraries + ["portctl"])
        #expect(!manifest.contains("products."), "products are added where this test does not see them")
    }

    @Test func `the changelog begins with the version of the library`() throws {
        let source = try Repository.text("Sources/Core/Ports/PackageVersion.swift")
        let version = try #require(source.firstMatch(of: /packageVersion = "([\d.]+)"/)).1
        let newest = try Repository.text("CHANGELOG.md").firstMatch(of: /(?m)^## ([\d.]+)/)
        #expect(newest?.1 == version)
    }

    @Test(arguments: ["1", ""])
    func `make installs a portctl with or without NATS`(wish: String) throws {
        let make = Process()
        make.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        make.arguments = ["make", "--dry-run", "-C", Repository.root.path, "install-portctl", "NATS=\(wish)"]
        let output = Pipe()
        make.standardOutput = output
        try make.run()
        let commands = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        make.waitUntilExit()
        #expect(commands.contains("--product portctl"))
        #expect(commands.contains("--traits Ports,CommandLine,NATS") == (wish == "1"))
    }

    /// A second default trait would come in another order now and then, and SwiftPM would build everything again.
    @Test func `one trait is the default, and make names those of its builds`() throws {
        #expect(try Repository.text("Package.swift").contains(#".default(enabledTraits: ["Ports"]),"#))
        // Other packages name their own.
        let traits = /\$\((?:TRAITS|TSAN|ASAN|COMPANIONS|MIGRATE)\)|--package-path/
        let builds = try Repository.text("Makefile").split(separator: "\n").filter {
            $0.hasPrefix("\t") && $0.contains("$(BUILD) ")
        }
        #expect(builds.count > 10)
        #expect(builds.filter { !$0.contains(traits) } == [])
    }

    @Test func `the Swift Package Index builds the documentation that make builds`() throws {
        let listed = try Repository.text(".spi.yml").matches(of: /(?m)^ {8}- (\w+)$/).map { $0.1 }
        let documented = try #require(Repository.text("Makefile").firstMatch(of: /(?m)^DOCUMENTED = (.*)$/)).1
        #expect(listed == documented.split(separator: " "))
    }
}
