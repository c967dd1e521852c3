import Foundation
import Testing

/// Where the pages lead to.
struct LinkTests {
    @Test func `what pages link to in the repository is there`() throws {
        for page in Repository.pages {
            let folder = page.split(separator: "/").dropLast().joined(separator: "/")
            let text = try Repository.text(page).replacing(/(?s)```.*?```|`[^`\n]*`/, with: "")
            for link in text.matches(of: /\]\(([^)\s]+)\)/).map({ String($0.1) })
            where !link.contains("://") {
                let path = String(link.prefix { $0 != "#" })
                // In a catalog, a picture goes by its name.
                let isPicture = folder.hasSuffix(".docc") && !path.contains("/")
                let full = isPicture ? "\(folder)/Resources/\(path).svg" : folder.isEmpty ? path : "\(folder)/\(path)"
                #expect(Repository.exists(full), "\(page): \(link)")
            }
        }
    }

    /// `make docs` finds links to symbols that lead nowhere, and takes its time.
    @Test func `the pages that pages name are there`() throws {
        let pages = Set(Repository.pages.map { String($0.split(separator: "/").last ?? "") })
        for page in Repository.pages {
            for link in try Repository.text(page).matches(of: /<doc:([^>]+)>/).map({ String($0.1) }) {
                let name = link.split(separator: "/").last.map { "\($0).md" } ?? ""
                #expect(pages.contains(name), "\(page): \(link)")
            }
        }
    }

    @Test func `make builds the documentation of all modules that have some`() throws {
        let catalogs = Repository.pages.compactMap {
            $0.firstMatch(of: /^Sources\/(\w+)\/\w+\.docc\//).map { String($0.1) }
        }
        let makefile = try Repository.text("Makefile")
        let documented = makefile.firstMatch(of: /(?m)^DOCUMENTED = (.*)$/).map { String($0.1) } ?? ""
        #expect(Set(catalogs).isSubset(of: Set(documented.split(separator: " ").map(String.init))))
    }
}
