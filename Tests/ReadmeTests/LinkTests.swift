import Foundation
import Testing

/// Where the pages lead to.
struct LinkTests {
    @Test func `what pages link to in the repository is there`() throws {
        let names = Set(Repository.pages.map { $0.lowercased().split(separator: "/").last ?? "" })
        for page in Repository.pages {
            let folder = page.split(separator: "/").dropLast().joined(separator: "/")
            let text = try Repository.text(page).replacing(/(?s)```.*?```|`[^`\n]*`/, with: "")
            for link in text.matches(of: /\]\(([^)\s]+)\)/).map({ String($0.1) })
            where !link.contains("://") {
                let path = String(link.prefix { $0 != "#" })
                // A page of a module that imports this one, which the documentation cannot link to by its name.
                if let linked = path.wholeMatch(of: /\/documentation\/(\w+)(\/\w+)?/) {
                    let name = String(linked.2 ?? linked.1).trimmingCharacters(in: ["/"])
                    #expect(names.contains("\(name).md"), "\(page): \(link)")
                    continue
                }
                // In a catalog, a picture goes by its name.
                let isPicture = folder.hasSuffix(".docc") && !path.contains("/")
                let pictures = ["svg", "png"].map { "\(folder)/Resources/\(path).\($0)" }
                let file = folder.isEmpty ? path : "\(folder)/\(path)"
                let full = isPicture ? pictures.first(where: Repository.exists) ?? pictures[0] : file
                #expect(Repository.exists(full), "\(page): \(link)")
            }
        }
    }

    /// `make docs` finds links to symbols that lead nowhere, and takes its time.
    @Test func `the pages that pages name are there`() throws {
        for page in Repository.pages {
            let folder = page.split(separator: "/").dropLast().joined(separator: "/")
            for link in try Repository.text(page).matches(of: /<doc:([^>#]+)(?:#([^>]+))?>/) {
                let name = link.1.split(separator: "/").last.map { "\($0).md" } ?? ""
                let paths = Repository.pages.filter { $0 == name || $0.hasSuffix("/\(name)") }
                // A name without slashes is of this module.
                guard let path = paths.first(where: { $0 == "\(folder)/\(name)" }) ?? paths.first else {
                    Issue.record("\(page): \(link.1)")
                    continue
                }
                guard let heading = link.2?.replacing("-", with: " ") else { continue }
                #expect(try Repository.text(path).contains("# \(heading)\n"), "\(page): \(link.1)")
            }
        }
    }

    @Test func `make builds the documentation of all modules that have some`() throws {
        let catalogs = Repository.pages.compactMap {
            $0.firstMatch(of: /^Sources\/(?:\w+\/)?(\w+)\/\w+\.docc\//).map { String($0.1) }
        }
        let makefile = try Repository.text("Makefile")
        let documented = makefile.firstMatch(of: /(?m)^DOCUMENTED = (.*)$/).map { String($0.1) } ?? ""
        #expect(
            catalogs.contains("Ports")
                && Set(catalogs).isSubset(of: Set(documented.split(separator: " ").map(String.init))))
    }
}
