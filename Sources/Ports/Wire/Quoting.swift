extension StringProtocol {
    /// The text without characters that could change the text around it, because others choose the names of ports and
    /// programs. A long text is cut.
    var printable: String {
        let isLong = utf8.count > 320
        let shown = unicodeScalars.prefix(isLong ? 80 : 320)
        return shown.map { $0.isPlain ? String($0) : $0.escaped(asASCII: true) }.joined() + (isLong ? "…" : "")
    }

    /// ``printable`` in quotation marks.
    var quoted: String { "“\(printable)”" }
}

extension Unicode.Scalar {
    fileprivate var isPlain: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: false
        default: self != "“" && self != "”"
        }
    }
}
