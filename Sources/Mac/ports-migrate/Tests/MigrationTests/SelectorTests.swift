import Migration
import Testing

struct SelectorTests {
    /// A class with methods that selectors name.
    private func inClass(_ statement: String, attribute: String = "") -> String {
        """
        \(attribute)class C: NSObject {
            func start() {
                \(statement)
            }
            func tick() {}
            func fire(_ timer: Timer) {}
            func heard(_ notification: Notification) {}
            func work(with object: Any?) {}
        }

        """
    }

    @Test(arguments: [
        (
            "Timer.scheduledTimer(timeInterval: 1, target: self, selector: #selector(tick), userInfo: nil, repeats: true)",
            "Timer.scheduledTimer(withTimeInterval: 1, repeats: true) { _ in self.tick() }"
        ),
        (
            "t = Timer(timeInterval: 0.5, target: self, selector: #selector(fire), userInfo: nil, repeats: false)",
            "t = Timer(fire: Date(timeIntervalSinceNow: 0.5), interval: 0.5, repeats: false) { timer in self.fire(timer) }"
        ),
        (
            "t = Timer(timeInterval: s, target: self, selector: #selector(C.fire(_:)), userInfo: nil, repeats: r)",
            "t = Timer(fire: Date(timeIntervalSinceNow: s), interval: s, repeats: r) { timer in self.fire(timer) }"
        ),
        (
            "t = Timer(fireAt: d, interval: 1, target: other, selector: #selector(Other.go(_:)), userInfo: nil, repeats: true)",
            "t = Timer(fire: d, interval: 1, repeats: true) { [target = other] timer in target.go(timer) }"
        ),
        (
            "NotificationCenter.default.addObserver(self, selector: #selector(heard), name: .x, object: nil)",
            "_ = NotificationCenter.default.addObserver(forName: .x, object: nil, queue: nil) { [weak self] notification in\n"
                + "            self?.heard(notification)\n        }"
        ),
        ("c.addObserver(o, selector: #selector(O.end), name: n, object: p)", nil),
        (
            "c.addObserver(o, selector: #selector(O.end(_:)), name: n, object: p)",
            "_ = c.addObserver(forName: n, object: p, queue: nil) { [weak observer = o] notification in\n"
                + "            observer?.end(notification)\n        }"
        ),
        (
            "Thread.detachNewThreadSelector(#selector(tick), toTarget: self, with: nil)",
            "Thread.detachNewThread { self.tick() }"
        ),
        (
            "Thread.detachNewThreadSelector(#selector(work(with:)), toTarget: self, with: x)",
            "Thread.detachNewThread { self.work(with: x) }"
        ),
        ("let t = Thread(target: self, selector: #selector(tick), object: nil)", "let t = Thread { self.tick() }"),
        ("let t = Timer(timeInterval: 1, target: self, selector: #selector(tick), userInfo: x, repeats: true)", nil),
        (
            "Thread.detachNewThreadSelector(#selector(work(with:)), toTarget: self, with: nil)",
            "Thread.detachNewThread { self.work(with: nil) }"
        ),
        ("Thread.detachNewThreadSelector(#selector(fire), toTarget: self, with: nil)", nil),
        (
            "perform(#selector(tick), with: nil, afterDelay: 1)",
            "_ = Timer.scheduledTimer(withTimeInterval: 1, repeats: false) { _ in self.tick() }"
        ),
        (
            "perform(#selector(work(with:)), with: x, afterDelay: d)",
            "_ = Timer.scheduledTimer(withTimeInterval: d, repeats: false) { _ in self.work(with: x) }"
        ),
        (
            "performSelector(onMainThread: #selector(tick), with: nil, waitUntilDone: false)",
            "DispatchQueue.main.async { self.tick() }"
        ),
        (
            "self.perform(#selector(tick), with: nil, afterDelay: 1)",
            "_ = Timer.scheduledTimer(withTimeInterval: 1, repeats: false) { _ in self.tick() }"
        ),
        (
            "self.performSelector(onMainThread: #selector(tick), with: nil, waitUntilDone: false)",
            "DispatchQueue.main.async { self.tick() }"
        ),
        ("performSelector(onMainThread: #selector(tick), with: nil, waitUntilDone: true)", nil),
        ("c.addObserver(o, selector: given, name: n, object: p)", nil),
    ])
    func `a selector becomes a closure, or a remark`(_ statement: String, _ expected: String?) throws {
        let source = inClass(statement)
        let migration = try Migration(source)
        #expect(try migrated(source) == inClass(expected ?? statement))
        #expect(migration.remarks.map(\.line) == (expected == nil ? [3] : []))
        #expect(migration.remarks.allSatisfy { $0.text == "selectors need Objective-C: call the method in a closure" })
    }

    @Test func `for a method on another thread, the remark says what wakes its loop`() throws {
        let left = try remarks(inClass("perform(#selector(tick), on: thread, with: nil, waitUntilDone: false)"))
        #expect(left.count == 1)
        #expect(left.first?.contains("CFRunLoopWakeUp(loop.getCFRunLoop())") == true)
    }

    @Test(arguments: [
        (
            "Timer(timeInterval: t, repeats: true) { _ in }",
            "Timer(fire: Date(timeIntervalSinceNow: t), interval: t, repeats: true) { _ in }"
        ),
        (
            "Timer(timeInterval: 60, repeats: true, block: b)",
            "Timer(fire: Date(timeIntervalSinceNow: 60), interval: 60, repeats: true, block: b)"
        ),
        (
            "Timer.scheduledTimer(withTimeInterval: 1, repeats: true) { _ in }",
            "Timer.scheduledTimer(withTimeInterval: 1, repeats: true) { _ in }"
        ),
    ])
    func `a timer that Foundation would fire at once gets its date`(_ source: String, _ expected: String) throws {
        #expect(try migrated("let t = \(source)") == "let t = \(expected)")
    }

    @Test func `an argument has the type of the parameter at its place, if all functions of the name agree`() throws {
        let one = "func f(_ a: Port, _ d: Date) {}\nf(p, .init())\nlist.f(.init(), d)"
        #expect(try migrated(one) == one)
        let two = "func f(_ a: Port) {}\nfunc f(_ a: Date) {}\nf(.init())"
        #expect(try migrated(two) == two)
    }

    @Test func `methods of the main actor are called there`() throws {
        let timer =
            "scheduledTimer(timeInterval: 1, target: self, selector: #selector(tick), userInfo: nil, repeats: true)"
        #expect(
            try migrated(inClass("Timer." + timer, attribute: "@MainActor ")).contains(
                "(withTimeInterval: 1, repeats: true) { _ in MainActor.assumeIsolated { self.tick() } }"))
    }

    @Test func `an observer of other processes' notifications gets a closure, too`() throws {
        let statement =
            "DistributedNotificationCenter.default().addObserver(self, selector: #selector(heard), name: n, object: nil)"
        #expect(
            try migrated(inClass(statement)).contains(
                "DistributedNotificationCenter.default().addObserver(forName: n, object: nil, queue: nil)"))
    }

    @Test func `casts inside of a changed call change, too`() throws {
        let statement =
            "c.addObserver(self, selector: #selector(heard), name: n, object: s as CFString)"
        #expect(try migrated(inClass(statement)).contains("(forName: n, object: s.cfString, queue: nil)"))
    }

    @Test func `removing self as an observer is left`() throws {
        #expect(
            try remarks(inClass("NotificationCenter.default.removeObserver(self)")).first?.hasPrefix("3:9: ") == true)
    }

    @Test(arguments: [
        ("@objc func f() {}", "func f() {}"), ("@objc(f:) public func f(_ x: Int) {}", "public func f(_ x: Int) {}"),
        ("@objcMembers\nclass C {\n    @objc\n    func f() {}\n}", "class C {\n    func f() {}\n}"),
        ("@objc @MainActor class C {}", "@MainActor class C {}"),
        ("@MainActor @objc class C {}", "@MainActor class C {}"),
        ("/// What it is.\n@objc /* why */ class C {}", "/// What it is.\n /* why */ class C {}"),
        ("@objc protocol P {}", "protocol P: AnyObject {}"),
        ("@objc protocol P: Q {}", "protocol P: AnyObject, Q {}"),
        ("@objc protocol P: NSObjectProtocol {}", "protocol P: NSObjectProtocol {}"),
        ("protocol P {}", "protocol P {}"),
    ])
    func `the attribute @objc goes`(_ source: String, _ expected: String) throws {
        #expect(try migrated(source) == expected)
    }

    @Test func `an optional requirement is left`() throws {
        #expect(
            try remarks("@objc protocol P {\n    @objc optional func f()\n}") == [
                "2:5: an optional requirement needs Objective-C: remove `optional`, and implement it in an extension"
            ])
    }

    @Test(arguments: [
        ("let port = Port()", "let port = NSMachPort()"),
        ("let port = Foundation.Port()", "let port = NSMachPort()"),
        ("let port = Port.init()", "let port = NSMachPort.init()"),
        ("let port: Port = .init()", "let port: Port = NSMachPort()"),
        ("var port: Port? = .init()", "var port: Port? = NSMachPort()"),
        ("let port: NSPort = NSPort()", "let port: NSPort = NSMachPort()"),
        ("typealias P = Port\nlet port = P()", "typealias P = Port\nlet port = NSMachPort()"),
        ("func make() -> Port { .init() }", "func make() -> Port { NSMachPort() }"),
        ("func make() -> Port {\n    return .init()\n}", "func make() -> Port {\n    return NSMachPort()\n}"),
        ("var made: Port { .init() }", "var made: Port { NSMachPort() }"),
        (
            "func take(_ port: Port = .init()) {}\ntake(.init())",
            "func take(_ port: Port = NSMachPort()) {}\ntake(NSMachPort())"
        ),
        ("var port: Port?\nport = .init()", "var port: Port?\nport = NSMachPort()"),
        ("let port: Port?\nuse(port ?? .init())", "let port: Port?\nuse(port ?? NSMachPort())"),
        (
            "class C {\n    var port: Port\n    init() { self.port = .init() }\n}",
            "class C {\n    var port: Port\n    init() { self.port = NSMachPort() }\n}"
        ),
        ("class Port {}\nlet port = Port()", "class Port {}\nlet port = Port()"),
        ("let port: MessagePort = .init()", "let port: MessagePort = .init()"),
        ("let date: Date = .init()", "let date: Date = .init()"),
    ])
    func `a Port that is made is an NSMachPort, as on macOS`(_ source: String, _ expected: String) throws {
        #expect(try migrated(source) == expected)
    }

    @Test func `another file's Port is no port of Foundation's`() throws {
        let source = "let port: Port = .init()\n"
        #expect(try Migration(source, in: ProgramNames(in: "class Port {}")).text.hasSuffix(source))
        #expect(try migrated("let port = Port(1)") == "let port = Port(1)")
    }
}
