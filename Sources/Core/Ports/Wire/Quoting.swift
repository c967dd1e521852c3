extension StringProtocol {
    /// The text with escapes in place of control characters, line breaks and changes of direction, which could change the
    /// text around it.
    package var escaped: String { unicodeScalars.map(\.escapedIfNeeded).joined() }

    /// The ``escaped`` text, also without curly quotation marks, and cut when it is long, because others choose the names
    /// of ports and programs.
    package var printable: String {
        let isLong = utf8.count > 320
        let shown = unicodeScalars.prefix(isLong ? 80 : 320).map { scalar in
            scalar == "“" || scalar == "”" ? scalar.escaped(asASCII: true) : scalar.escapedIfNeeded
        }
        return shown.joined() + (isLong ? "…" : "")
    }

    /// ``printable`` in quotation marks.
    var quoted: String { "“\(printable)”" }
}

extension Unicode.Scalar {
    fileprivate var escapedIfNeeded: String {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: escaped(asASCII: true)
        default: String(self)
        }
    }
}
