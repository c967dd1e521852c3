import Testing

@testable import Activation

/// The syntax of service files, and the keys.
@Suite struct UnitFileTests {
    private func assignment(_ line: String) throws -> UnitFile.Assignment {
        let all = try UnitFile("[Service]\n\(line)").assignments
        return try #require(all.first)
    }

    @Test func `sections, comments, blank lines and joined lines`() throws {
        let file = try UnitFile("# a\n\n[Unit]\nA = 1\n; b\n[Service]\nB=one \\\n# in between\n  two\nC=x=y\r\nD=")
        #expect(
            file.assignments == [
                .init(section: "Unit", key: "A", value: "1", line: 4),
                .init(section: "Service", key: "B", value: "one  two", line: 7),
                .init(section: "Service", key: "C", value: "x=y", line: 10),
                .init(section: "Service", key: "D", value: "", line: 11),
            ])
    }

    @Test(arguments: [
        ("A=1", "line 1: the file begins with a section, such as [Service]"),
        ("[Service", "line 1: a section ends with “]”"),
        ("[Service]\nword", "line 2: “word” is no assignment: write KEY=VALUE"),
    ])
    func `a line that is no assignment is named`(_ text: String, _ message: String) {
        let error = #expect(throws: ServiceFileError.self) { try UnitFile(text) }
        #expect(error?.description == message)
    }

    @Test(arguments: [
        ("a b", ["a", "b"]), ("  a\t b ", ["a", "b"]), ("\"a b\" 'c d'", ["a b", "c d"]), ("a\"b c\"d", ["ab cd"]),
        (#"a\ b \"c\" \\ \n"#, ["a b", "\"c\"", "\\", "\n"]), ("\"\" ''", ["", ""]), ("\"it's\"", ["it's"]), ("", []),
    ])
    func `a value has words`(_ value: String, _ words: [String]) throws {
        #expect(try assignment("K=\(value)").words == words)
    }

    @Test(arguments: [#""a"#, "'", #"a\"#, #"a\q"#])
    func `bad quoting is an error`(_ value: String) throws {
        let assignment = UnitFile.Assignment(section: "Service", key: "K", value: value, line: 3)
        let error = #expect(throws: ServiceFileError.self) { try assignment.words }
        #expect(error?.line == 3)
    }

    @Test(arguments: [
        ("90", Duration.seconds(90)), ("500ms", .milliseconds(500)), ("2min 30s", .seconds(150)),
        ("1h", .seconds(3600)),
        ("infinity", nil),
    ])
    func `times have systemd's units`(_ value: String, _ time: Duration?) throws {
        #expect(try assignment("K=\(value)").time == time)
    }

    @Test(arguments: ["", "s", "-1", "5 apples", "1.5", "99999999999999999999", "1000000d"])
    func `what is no time is an error`(_ value: String) throws {
        let assignment = try assignment("K=\(value)")
        #expect(throws: ServiceFileError.self) { try assignment.time }
    }

    @Test(arguments: [("512M", 512 << 20), ("4096", 4096), ("2G", 2 << 30), ("infinity", nil)])
    func `sizes have systemd's units`(_ value: String, _ size: Int?) throws {
        #expect(try assignment("K=\(value)").size == size)
    }

    @Test(arguments: ["M", "-1", "1.5G", "9999999999T", "10 apples"])
    func `what is no size is an error`(_ value: String) throws {
        let assignment = try assignment("K=\(value)")
        #expect(throws: ServiceFileError.self) { try assignment.size }
    }

    @Test func `a service file says how the program starts`() throws {
        let file = try ServiceFile(
            """
            [Unit]
            Description=Tells the time
            [Service]
            ExecStart=/usr/bin/clock --zone "Europe/Berlin"
            Environment=LEVEL=debug "GREETING=good day"
            WorkingDirectory=/var/lib/clock
            IdleSec=5min
            TimeoutStartSec=3
            TimeoutStopSec=4
            QueueLimit=50
            Nice=5
            NoNewPrivileges=yes
            LimitAS=1G
            LimitCPU=1h
            LimitNOFILE=256
            LimitFSIZE=infinity
            LimitCORE=0
            """)
        #expect(file.description == "Tells the time")
        #expect(file.program.executable == "/usr/bin/clock")
        #expect(file.program.arguments == ["--zone", "Europe/Berlin"])
        #expect(file.program.environment == .inherit.updating(["LEVEL": "debug", "GREETING": "good day"]))
        #expect(file.program.workingDirectory == "/var/lib/clock")
        #expect(file.idleTime == .seconds(300))
        #expect((file.startTime, file.stopTime) == (.seconds(3), .seconds(4)))
        #expect((file.queueLimit, file.program.niceness) == (50, 5))
        #expect(!file.program.mayGainPrivileges)
        #expect(
            file.program.limits
                == .init(addressSpace: 1 << 30, processorTime: .seconds(3600), openFiles: 256, coreSize: 0))
    }

    @Test(arguments: [
        ("[Service]", "no line says ExecStart=PROGRAM in [Service]"),
        ("[Service]\nExecStart=clock", "line 2: ExecStart: the program has to be an absolute path, and not “clock”"),
        ("[Service]\nExecStart=", "line 2: ExecStart: the program has to be an absolute path, and not “”"),
        ("[Service]\nExecStart=/a\nExecStart=/b", "line 3: ExecStart: a service has one program"),
        ("[Servce]\nExecStart=/a", "line 2: there is no section [Servce]: the sections are [Unit] and [Service]"),
        ("[Unit]\nAfter=network.target", "line 2: [Unit] has no key After: its only key is Description"),
        ("[Service]\nQueueLimit=0", "line 2: QueueLimit: “0” is no number from 1 to 2147483646"),
        ("[Service]\nNoNewPrivileges=perhaps", "line 2: NoNewPrivileges: “perhaps” is neither yes nor no"),
        ("[Service]\nEnvironment=LEVEL", "line 2: Environment: “LEVEL” is no NAME=VALUE"),
    ])
    func `what a service file cannot say is named with its line`(_ text: String, _ message: String) {
        let error = #expect(throws: ServiceFileError.self) { try ServiceFile(text) }
        #expect(error?.description == message)
    }

    @Test func `an unknown key names the known ones`() {
        let error = #expect(throws: ServiceFileError.self) { try ServiceFile("[Service]\nExecStrat=/a") }
        #expect(error?.description.contains("has no key ExecStrat; the keys are ExecStart") == true)
    }
}
