/// The ways GNU `wc` writes file names in the C locale.
enum PathPrinting {
    /// As in the lines with counts: the bytes themselves, unless a newline among them would break the line.
    static func inReport(_ path: [UInt8]) -> [UInt8] {
        path.contains(newline) ? shellQuoted(path) : path
    }

    /// As in error messages: quoted wherever a shell, or a reader looking for the colon, could misread the name.
    static func inMessages(_ path: [UInt8]) -> String {
        String(decoding: needsQuotes(path) ? shellQuoted(path) : path, as: UTF8.self)
    }
}

private let newline = UInt8(ascii: "\n")
private let apostrophe = UInt8(ascii: "'")

/// Whether a byte is shown as an escape sequence.
private func isUnprintable(_ byte: UInt8) -> Bool {
    !(0x20...0x7e).contains(byte)
}

private func needsQuotes(_ path: [UInt8]) -> Bool {
    switch path {
    case [], Array("{".utf8), Array("}".utf8): true
    default: path.first == UInt8(ascii: "~") || path.first == UInt8(ascii: "#") || path.contains(where: isSpecial)
    }
}

/// Whether a byte needs quotes wherever it stands. The colon is not special to a shell, but ends a name in messages.
private func isSpecial(_ byte: UInt8) -> Bool {
    isUnprintable(byte) || " !\"$&'()*:;<=>?[\\^`|".utf8.contains(byte)
}

/// One word of shell source, all ASCII, which stands for the path.
private func shellQuoted(_ path: [UInt8]) -> [UInt8] {
    if canStandInDoubleQuotes(path) { return Array("\"".utf8) + path + Array("\"".utf8) }

    var result = [apostrophe]
    // Within $'...'. That this starts as `true` for a name with an apostrophe and an unprintable end is a defect of
    // wc 9.1, reproduced: it looks through such names twice, and does not forget how the first look ended.
    var escaping = path.contains(apostrophe) && path.last.map(isUnprintable) == true
    for byte in path {
        if isUnprintable(byte) {
            if !escaping { result += "'$'".utf8 }
            result += escapeSequence(for: byte).utf8
            escaping = true
        } else if byte == apostrophe {
            result += "'\\''".utf8
            escaping = false
        } else {
            if escaping { result += "''".utf8 }
            result.append(byte)
            escaping = false
        }
    }
    return result + [apostrophe]
}

/// Whether double quotes do, which `wc` prefers for names where the apostrophe is the only thing to protect.
private func canStandInDoubleQuotes(_ path: [UInt8]) -> Bool {
    guard path.contains(apostrophe) else { return false }
    return !path.enumerated().contains { index, byte in
        switch byte {
        case apostrophe, UInt8(ascii: " "), UInt8(ascii: ":"): false
        case UInt8(ascii: "~"), UInt8(ascii: "#"): index > 0
        case UInt8(ascii: "{"), UInt8(ascii: "}"): true
        default: isSpecial(byte)
        }
    }
}

private func escapeSequence(for byte: UInt8) -> String {
    switch byte {
    case 0x07: return "\\a"
    case 0x08: return "\\b"
    case 0x09: return "\\t"
    case 0x0a: return "\\n"
    case 0x0b: return "\\v"
    case 0x0c: return "\\f"
    case 0x0d: return "\\r"
    default:
        let octal = String(byte, radix: 8)
        return "\\" + String(repeating: "0", count: 3 - octal.count) + octal
    }
}
