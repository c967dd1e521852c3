/// The types that functions and callbacks of CoreFoundation return and take.
enum CoreFoundationFunctions {
    static func result(of name: String) -> ValueType? {
        switch name {
        case "CFMessagePortGetName", "CFRunLoopCopyCurrentMode", "CFCopyDescription", "CFUUIDCreateString",
            "CFURLCopyPath", "CFURLGetString", "CFCopyTypeIDDescription":
            return ValueType(name: "CFString", optionality: .implicit)
        default:
            guard name.hasPrefix("CF"), let creates = name.firstRange(of: "Create"),
                creates.lowerBound > name.startIndex
            else { return nil }
            return ValueType(name: String(name[..<creates.lowerBound]), optionality: .implicit)
        }
    }

    static func parameters(ofCallback type: String) -> [ValueType?] {
        let (port, pointer) = (
            ValueType(name: "CFMessagePort", optionality: .optional),
            ValueType(name: "UnsafeMutableRawPointer", optionality: .optional)
        )
        switch type {
        case "CFMessagePortCallBack":
            return [port, ValueType(name: "Int32"), ValueType(name: "CFData", optionality: .optional), pointer]
        case "CFMessagePortInvalidationCallBack":
            return [port, pointer]
        default:
            return []
        }
    }

    static func parameters(ofCallbackIn function: String) -> [ValueType?] {
        switch function {
        case "CFMessagePortCreateLocal": parameters(ofCallback: "CFMessagePortCallBack")
        case "CFMessagePortSetInvalidationCallBack": parameters(ofCallback: "CFMessagePortInvalidationCallBack")
        default: []
        }
    }
}
