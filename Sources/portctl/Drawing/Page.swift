import Glibc

/// A page for a browser, in one file: it loads nothing, and follows the system's choice of light or dark.
struct Page {
    var title: String
    /// HTML.
    var body: String
    var style = ""
    var script = ""

    var html: String {
        """
        <!DOCTYPE html>
        <html lang="en">
        <head>
        <meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
        <title>\(escaped(title))</title>
        <style>
        \(Self.commonStyle)
        \(style)
        </style>
        </head>
        <body>
        \(body)
        <p class="quiet">\(escaped(Self.origin))</p>
        \(script.isEmpty ? "" : "<script>\n\(script)\n</script>")
        </body>
        </html>

        """
    }

    /// When and where: a page is sent to others, and read later.
    private static var origin: String {
        var host = [CChar](repeating: 0, count: 256)
        gethostname(&host, 255)
        let name = String(decoding: host.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return "Made at \(time(Int(Glibc.time(nil)))) on \(name), local time."
    }

    private static let commonStyle = """
        :root {
          color-scheme: light dark;
          --ground: #ffffff; --text: #1f2328; --quiet: #59636e; --line: #d1d9e0; --panel: #f6f8fa; --accent: #0969da;
          --alarm: #b3261e; --alarm-ground: #fdecea; --warning: #7a4f00; --warning-ground: #fff4d6; --edge: #8c959f;
          --pass: #dfe3e8; --sleep: #f3f5f7; --polling: #e4ecf5;
          --block: #8ab4f8; --task: #c9a4f7; --queue: #6fd3e6; --source: #84cf9a; --timer: #f7cf5c; --observer: #fb9ccb;
        }
        @media (prefers-color-scheme: dark) {
          :root {
            --ground: #0d1117; --text: #e6edf3; --quiet: #9198a1; --line: #30363d; --panel: #161b22; --accent: #58a6ff;
            --alarm: #ff8a80; --alarm-ground: #3b1513; --warning: #f2cc60; --warning-ground: #332701; --edge: #6e7681;
            --pass: #39414a; --sleep: #171d25; --polling: #1c2a3a;
          }
        }
        * { box-sizing: border-box; }
        body { margin: 0 auto; padding: 20px 24px 48px; max-width: 1600px; background: var(--ground); color: var(--text);
          font: 14px/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
        h1 { font-size: 20px; margin: 0 0 4px; overflow-wrap: anywhere; }
        h2 { font-size: 15px; margin: 24px 0 8px; overflow-wrap: anywhere; }
        p { margin: 4px 0; } .quiet { color: var(--quiet); }
        table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
        th, td { text-align: left; padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
        th { color: var(--quiet); font-weight: 500; } td.name { overflow-wrap: anywhere; min-width: 5em; }
        th.number, td.number { text-align: right; white-space: nowrap; }
        svg { display: block; } svg text { font: 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--text); }
        """
}

/// Text for HTML, in an element or an attribute: names are other programs' choice.
func escaped(_ text: String) -> String {
    text.escaped.unicodeScalars.reduce(into: "") { escaped, scalar in
        switch scalar {
        case "&": escaped += "&amp;"
        case "<": escaped += "&lt;"
        case ">": escaped += "&gt;"
        case "\"": escaped += "&quot;"
        case "'": escaped += "&#39;"
        default: escaped.unicodeScalars.append(scalar)
        }
    }
}

func escaped(lines: [String]) -> String { lines.map(escaped).joined(separator: "\n") }

/// JSON for a script in a page: nothing in it ends the script.
func embedded(_ json: String) -> String {
    json.unicodeScalars.reduce(into: "") { embedded, scalar in
        switch scalar {
        case "<", ">", "&", "\u{2028}", "\u{2029}": embedded += "\\u" + padded(Int(scalar.value), radix: 16, to: 4)
        default: embedded.unicodeScalars.append(scalar)
        }
    }
}

/// A duration in the unit that leaves one to three digits before the point.
func readable(_ duration: Duration) -> String {
    let nanoseconds = duration / .nanoseconds(1)
    for (unit, name) in [(1e9, "s"), (1e6, "ms"), (1e3, "µs")] where nanoseconds >= unit {
        let value = nanoseconds / unit
        let decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2
        return "\(rounded(value, decimals)) \(name)"
    }
    return "\(Int(nanoseconds.rounded())) ns"
}

func rounded(_ value: Double, _ decimals: Int) -> String {
    let scale = (0..<decimals).reduce(1) { scale, _ in scale * 10 }
    let scaled = Int((value * Double(scale)).rounded())
    return decimals == 0 ? "\(scaled)" : "\(scaled / scale)." + padded(scaled % scale, to: decimals)
}

/// A share in percent; a little is not nothing.
func percent(_ part: Duration, of whole: Duration) -> String {
    guard whole > .zero, part > .zero else { return "0 %" }
    let value = part / whole * 100
    return value < 0.1 ? "under 0.1 %" : "\(rounded(value, value < 10 ? 1 : 0)) %"
}

func nanoseconds(_ duration: Duration) -> Int { Int(clamping: duration.attoseconds / 1_000_000_000) }
