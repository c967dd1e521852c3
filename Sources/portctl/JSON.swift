enum JSON: CustomStringConvertible {
    case integer(Int?)
    case number(String?)
    case string(String?)
    case bool(Bool)
    case array([JSON])
    case object([(String, JSON)])

    var description: String {
        switch self {
        case .integer(let value): value.map { "\($0)" } ?? "null"
        case .number(let digits): digits ?? "null"
        case .string(let text): text.map(Self.quoted) ?? "null"
        case .bool(let value): "\(value)"
        case .array(let values): "[" + values.map(\.description).joined(separator: ",") + "]"
        case .object(let members): "{" + members.map { "\(Self.quoted($0.0)):\($0.1)" }.joined(separator: ",") + "}"
        }
    }

    private static func quoted(_ text: String) -> String {
        text.unicodeScalars.reduce(into: "\"") { quoted, scalar in
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case "\n": quoted += "\\n"
            // Also the controls of eight bits: a terminal obeys them.
            case _ where scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value):
                quoted += "\\u" + padded(Int(scalar.value), radix: 16, to: 4)
            default: quoted.unicodeScalars.append(scalar)
            }
        } + "\""
    }
}
