import Foundation
import OwnThread
import TestSupport
import Testing

@testable import Ports

/// The log at the levels `debug` and `trace`. At `info` it tells nothing of that.
@Suite(.ownThread) struct LogLevelTests {
    let sandbox = Sandbox()

    /// A helper process whose log goes into a file.
    private struct Logging {
        let child: Child
        let file: String

        init(_ words: String..., level: String, environment: [String: String] = [:], in sandbox: Sandbox) {
            file = sandbox.file("\(words[0]).log")
            child = Child(
                [
                    "/bin/sh", "-c", "export PORTS_LOG_LEVEL=\(level); exec \"$0\" \"$@\" 2>\(file)", Child.program,
                ] + words,
                environment: ["PORTS_DIRECTORY": sandbox.path].merging(environment) { $1 })
        }

        var lines: [Substring] { Target.lines(of: file) }

        /// Whether there are lines with the texts, in their order.
        func tells(_ texts: String...) -> Bool {
            var rest = lines[...]
            return texts.allSatisfy { text in
                guard let index = rest.firstIndex(where: { $0.contains(text) }) else { return false }
                rest = rest[(index + 1)...]
                return true
            }
        }
    }

    @Test func `at the level trace, the journey of a request and its reply is told in order`() throws {
        let server = Logging("serve", "test", level: "trace", in: sandbox)
        let identity = try sandbox.names.waitForPort(forName: "test", before: .patience).identity
        // At its end it would have little time for its lines.
        let asker = Logging("ask", "stay", level: "trace", in: sandbox)
        let journey = waitUntil {
            asker.tells(
                "connecting to process", "connected to \(identity.ownerText)", "handed the request",
                "took the reply to request")
        }
        #expect(journey, "\(asker.lines)")
        #expect(asker.tells("of id 1, 1 component, "), "\(asker.lines)")
        let isServed = waitUntil {
            // The reply may leave before the handler has returned, or after.
            server.tells("accepted a connection of", "port “test” of \(identity.ownerText) took the request")
                && server.tells("took the request", "handed the reply to request")
                && server.tells("took the request", "handled the request")
        }
        #expect(isServed, "\(server.lines)")
        #expect(server.lines.allSatisfy { $0.contains("swift-ports") }, "\(server.lines)")
    }

    @Test(arguments: ["info", "notice"])
    func `at the levels info and above, nothing is told of what goes well`(_ level: String) throws {
        let server = Logging("serve", "test", level: level, in: sandbox)
        _ = try sandbox.names.waitForPort(forName: "test", before: .patience)
        let asker = Logging("ask", level: level, in: sandbox)
        #expect(asker.child.wait() == 0)
        #expect(asker.lines.isEmpty)
        #expect(server.lines.isEmpty)
    }

    @Test(arguments: ["info", "debug"])
    func `a failure that a handler chose is told at the level debug, another error at info`(_ level: String) throws {
        let server = Logging("serve-and-throw", "test", level: level, in: sandbox)
        let remote = RemoteMessagePort(try sandbox.names.waitForPort(forName: "test", before: .patience))
        for id in 1...3 as ClosedRange<UInt32> {
            #expect(throws: PortError.self) { try remote.request(id: id, timeout: .seconds(30)) }
        }
        let isTold = waitUntil { server.tells("no such request", "the disk is full") }
        #expect(isTold, "\(server.lines)")
        #expect(server.tells("no such key") == (level == "debug"), "\(server.lines)")
    }

    @Test(arguments: [("loud", true), ("INFO", false), ("", false)])
    func `a word that is no level is told once`(_ word: String, _ isTold: Bool) throws {
        let port = try LocalMessagePort(name: "test", nameServer: sandbox.names)
        let asker = Logging("ask-for-ever", level: word, in: sandbox)
        let text = "PORTS_LOG_LEVEL is “\(word)”, which is none of trace, debug, info, notice, warning, error, critical"
        if isTold { #expect(waitUntil { asker.tells(text) }) }
        // It is connected: the first line would have been before.
        let control = sandbox.names.runtime.control
        #expect(waitUntil { !control.watchers(of: port.port.id.number).isEmpty })
        #expect(asker.lines.count == (isTold ? 1 : 0), "\(asker.lines)")
    }

    @Test(arguments: [
        ("PORTS_SHARED_MEMORY", "nver", "PORTS_SHARED_MEMORY is “nver”, and the only word that it takes is never"),
        ("PORTS_SHARED_MEMORY", "never", nil), ("PORTS_SHARED_MEMORY", "", nil),
        ("PORTS_LANES", "never", "PORTS_LANES is called PORTS_SHARED_MEMORY now"), ("PORTS_LANES", "", nil),
    ])
    func `a word about shared memory that is unknown is told once, and so is the former name`(
        _ name: String, _ word: String, _ text: String?
    ) throws {
        let port = try LocalMessagePort(name: "test", nameServer: sandbox.names)
        let environment = ["PORTS_SHARED_MEMORY": ""].merging([name: word]) { $1 }
        let asker = Logging("ask-for-ever", level: "", environment: environment, in: sandbox)
        if let text { #expect(waitUntil { asker.tells(text) }) }
        let control = sandbox.names.runtime.control
        #expect(waitUntil { !control.watchers(of: port.port.id.number).isEmpty })
        #expect(asker.lines.count == (text == nil ? 0 : 1), "\(asker.lines)")
    }

    @Test func `at the level debug, each state of a connection is told, and no message`() throws {
        let port = try LocalMessagePort(name: "test", nameServer: sandbox.names)
        let asker = Logging("ask-for-ever", level: "debug", in: sandbox)
        let control = sandbox.names.runtime.control
        let number = port.port.id.number
        #expect(
            waitUntil {
                asker.tells(
                    "connecting to process", "connected to",
                    "opened a \(Sandbox.hasRings ? "ring" : "socket") to port “test”")
            })
        #expect(waitUntil { !control.watchers(of: number).isEmpty })
        for connection in control.watchers(of: number) { connection.cut() }
        // The owner's new connection may come before the asker learns the end of the former one.
        let isRenewed = waitUntil {
            asker.tells("lost the connection to", "connecting to process", "connected to")
                || asker.tells("and there is another")
        }
        #expect(isRenewed, "\(asker.lines)")
        port.invalidate()
        // The request is refused before the port has ended, and then the asker ends by itself.
        let isTold = waitUntil {
            asker.tells("connected to", "connected to", "has ended")
                || asker.tells("connected to", "connected to", "closed the connection to")
        }
        #expect(isTold, "\(asker.lines)")
        #expect(!asker.tells("handed the"), "\(asker.lines)")
    }
}
