import Migration
import Testing

struct CastTests {
    @Test(arguments: [
        ("f(name as CFString)", "f(name.cfString)"),
        ("f(self.name as CFString, 1)", "f(self.name.cfString, 1)"),
        ("f(Self.names[0] as CFString)", "f(Self.names[0].cfString)"),
        ("let d = try encoder.encode(x) as CFData", "let d = try encoder.encode(x).cfData"),
        ("let d = try? encoder.encode(x) as CFData", "let d = try? encoder.encode(x).cfData"),
        ("let d: CFData = await load() as CFData", "let d: CFData = await load().cfData"),
        (
            "return Unmanaged.passRetained(\"ok\".data(using: .utf8)! as CFData)",
            "return Unmanaged.passRetained(\"ok\".data(using: .utf8)!.cfData)"
        ),
        ("f(prefix + name as CFString)", "f((prefix + name).cfString)"),
        ("f(name ?? other as CFString)", "f(name ?? other.cfString)"),
        ("f(isOne ? one as CFString : two)", "f(isOne ? one.cfString : two)"),
        ("f((a ? b : c) as CFString)", "f((a ? b : c).cfString)"),
        ("f([1, 2] as CFData)", "f([1, 2].cfData)"),
        ("f(\n    name as CFString,\n    1)", "f(\n    name.cfString,\n    1)"),
        ("f(name\n    as CFString)", "f(name.cfString)"),
        ("f(g(name as CFString) as CFData)", "f(g(name.cfString).cfData)"),
        ("f(-name as CFString)", "f((-name).cfString)"),
        (
            "let replyMode: RunLoop.Mode = x\nf(replyMode.rawValue as CFString)",
            "let replyMode: RunLoop.Mode = x\nf(replyMode.rawValue.cfString)"
        ),
    ])
    func `a value of Swift becomes one of CoreFoundation`(_ source: String, _ expected: String) throws {
        #expect(try migrated(source) == expected)
    }

    @Test(arguments: [
        "f(\"com.example\" as CFString)", "f(\"com.example.\\(number)\" as CFString)",
        "f(CFRunLoopMode.defaultMode.rawValue as CFString)", "f(kCFRunLoopDefaultMode.rawValue as CFString)",
        "let mode: CFRunLoopMode = x\nf(mode.rawValue as CFString)", "let s: CFString = a\nf(s as CFString)",
        "let d: NSData = a\nf(d as Data)", "let s: NSString = a\nf(s as String)", "f(x as Any)", "f(x as AnyObject)",
        "if case let data as Data = x {}", "f(x as? Data)", "f(x as! String)", "f(x as! CFRunLoop)",
        "let d = r?.takeRetainedValue() as? Data", "func f(_ d: CFData?) { g(d as! Data) }",
        "let n = 1 as CFIndex",
        "let s: String = a\nf(s as NSString)",
    ])
    func `what compiles stays`(_ source: String) throws {
        #expect(try migrated(source) == source)
        #expect(try remarks(source) == [])
    }

    @Test(arguments: [
        ("func f(_ d: Data?) { g(d as CFData?) }", "func f(_ d: Data?) { g(d?.cfData) }"),
        ("let d: Data! = x\ng(d as CFData?)", "let d: Data! = x\ng(d?.cfData)"),
        ("g(d as CFData?)", "g(d.cfData as CFData?)"),
        ("g(a?.b as CFString?)", "g(a?.b.cfString)"),
    ])
    func `an optional stays one`(_ source: String, _ expected: String) throws {
        #expect(try migrated(source) == expected)
    }

    @Test(arguments: [
        ("func f(_ d: CFData) { g(d as Data) }", "func f(_ d: CFData) { g(d.data) }"),
        ("func f(d: CFData?) { if let d = d as Data? { g(d) } }", "func f(d: CFData?) { if let d = d?.data { g(d) } }"),
        (
            "func f(d: CFData?) { guard let d else { return }\n g(d as Data) }",
            "func f(d: CFData?) { guard let d else { return }\n g(d.data) }"
        ),
        ("func f(d: CFData?) { if let d { g(d as Data) } }", "func f(d: CFData?) { if let d { g(d.data) } }"),
        (
            "func f(d: CFData?) { while let e = d { g(e as Data) } }",
            "func f(d: CFData?) { while let e = d { g(e.data) } }"
        ),
        (
            "var r: Unmanaged<CFData>?\nlet d = r?.takeRetainedValue() as Data?",
            "var r: Unmanaged<CFData>?\nlet d = r?.takeRetainedValue().data"
        ),
        ("let d = r!.takeRetainedValue() as Data", "let d = r!.takeRetainedValue().data"),
        ("let n = CFMessagePortGetName(port) as String", "let n = CFMessagePortGetName(port).string"),
        ("let n = CFUUIDCreateString(nil, id) as String", "let n = CFUUIDCreateString(nil, id).string"),
        (
            "let s = CFStringCreateWithCString(nil, x, 0)!\nf(s as NSString)",
            "let s = CFStringCreateWithCString(nil, x, 0)!\nf(s.string as NSString)"
        ),
        ("func f(_ d: CFData) { g(d as NSData) }", "func f(_ d: CFData) { g(d.data as NSData) }"),
    ])
    func `a value of CoreFoundation becomes one of Swift`(_ source: String, _ expected: String) throws {
        #expect(try migrated(source) == expected)
    }

    @Test(arguments: [
        ("f(r as Data)", "f(Data(r))"), ("f(a.b() as String)", "f(String(a.b()))"),
        ("for d in all { f(d as Data) }", "for d in all { f(Data(d)) }"),
    ])
    func `a value of any type becomes one of Swift`(_ source: String, _ expected: String) throws {
        #expect(try migrated(source) == expected)
    }

    @Test(arguments: [
        "CFMessagePortCreateLocal(nil, n, { _, _, data, _ in f(data as Data?) }, nil, nil)",
        "let c: CFMessagePortCallBack = { (_, _, data, _) -> Unmanaged<CFData>? in f(data as Data?) }",
        "let c = { (_: CFMessagePort?, _: Int32, data: CFData?, _: UnsafeMutableRawPointer?) in f(data as Data?) }",
        "func c(_ p: CFMessagePort?, id: Int32, data: CFData?) { let g = { f(data as Data?) } }",
        "class C { var data: CFData?\n func g() { f(data as Data?) } }",
        "let data: Optional<CFData> = x\nf(data as Data?)",
        "func h() -> CFData? { nil }\nlet data = h()\nf(data as Data?)",
    ])
    func `the type of a callback's data is known`(_ source: String) throws {
        #expect(try migrated(source) == source.replacing("data as Data?", with: "data?.data"))
    }

    @Test(arguments: [
        ("func f(d: CFData?) { _ = d.map { $0 as Data } }", "func f(d: CFData?) { _ = d.map { $0.data } }"),
        (
            "class C { var d: CFData\n func g() { f(self.d as Data) } }",
            "class C { var d: CFData\n func g() { f(self.d.data) } }"
        ),
        (
            "enum E { static let n: CFString = x }\nf(E.n as String)",
            "enum E { static let n: CFString = x }\nf(E.n.string)"
        ),
        (
            "class C { static func g() -> CFData { x } }\nf(C.g() as Data)",
            "class C { static func g() -> CFData { x } }\nf(C.g().data)"
        ),
        (
            "struct S { var d: CFData }\nlet s: S = x\nf(s.d as Data)",
            "struct S { var d: CFData }\nlet s: S = x\nf(s.d.data)"
        ),
    ])
    func `types of members and of results are known`(_ source: String, _ expected: String) throws {
        #expect(try migrated(source) == expected)
    }

    @Test func `the inner of two declarations counts`() throws {
        let source = "let d: NSData = x\nfunc f(d: CFData) { g(d as Data) }\nh(d as Data)"
        #expect(try migrated(source) == source.replacing("g(d as Data)", with: "g(d.data)"))
    }

    @Test func `comments inside a cast stay, and so does the cast`() throws {
        let source = "f(name /* the service */ as CFString)"
        #expect(try migrated(source) == source)
    }
}
