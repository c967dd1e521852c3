import Glibc
import Ports

/// A page for a browser: one file that loads nothing. Its HTML, CSS and JavaScript stand in the folder Pages.
struct Page {
    private let html: [UInt8]
    private let parts: [(name: String, bytes: [UInt8])]

    private init(_ html: [UInt8], _ parts: [(name: String, bytes: [UInt8])]) {
        self.html = html
        self.parts =
            [("page.css", PackageResources.page_css), ("page.js", PackageResources.page_js)] + parts
    }

    /// Draws a ``PortDrawing``.
    static let map = Page(
        PackageResources.map_html, [("map.css", PackageResources.map_css), ("map.js", PackageResources.map_js)])
    /// Draws a ``LoopsDrawing``.
    static let timeline = Page(
        PackageResources.timeline_html,
        [("timeline.css", PackageResources.timeline_css), ("timeline.js", PackageResources.timeline_js)])

    /// The page with its styles and scripts inside, and with the content as JSON.
    /// - Parameter text: The same in words, for a browser without JavaScript.
    func html(of content: some Encodable, text: String = "") -> String {
        var page = String(decoding: html, as: UTF8.self)
        for (name, bytes) in parts {
            let text = String(decoding: bytes, as: UTF8.self)
            page.replace("<link rel=\"stylesheet\" href=\"\(name)\">", with: "<style>\n\(text)</style>")
            page.replace("<script src=\"\(name)\"></script>", with: "<script>\n\(text)</script>")
        }
        let entities: [Unicode.Scalar: String] = ["&": "&amp;", "<": "&lt;", ">": "&gt;"]
        let escaped = text.unicodeScalars.map { entities[$0] ?? String($0) }.joined()
        page.replace("<pre></pre>", with: "<pre>\(escaped)</pre>")
        page.replace(">null</script>", with: ">\(embedded(Filling(content: content)))</script>")
        return page
    }
}

/// The JSON in a page. It also says when and where the page was made, because pages are sent to others and read later.
private struct Filling<Content: Encodable>: Encodable {
    let content: Content
    var made = time(Int(Glibc.time(nil)))
    var host = hostName()
}

private func hostName() -> String {
    var name = [CChar](repeating: 0, count: 256)
    gethostname(&name, 255)
    return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
}

/// JSON inside a script element. Nothing in it ends the element, and invisible characters are shown as escapes, as
/// `escaped` shows them.
private func embedded(_ value: some Encodable) -> String {
    json(value).unicodeScalars.reduce(into: "") { embedded, scalar in
        switch scalar {
        case "<", ">", "&": embedded += "\\u" + padded(Int(scalar.value), radix: 16, to: 4)
        default:
            let shown = String(scalar).escaped
            embedded += shown.utf8.count > 1 && shown.hasPrefix("\\") ? "\\" + shown : shown
        }
    }
}
