import Foundation
import FoundationPorts
import OwnThread
import Ports
import RunLoops
import TestSupport
import Testing

@Suite(.ownThread) struct MessagePortTests {
    private let folder = TemporaryFolder()
    private var names: PortNameServer { PortNameServer(directory: folder.path) }
    private var server: MessagePortNameServer { MessagePortNameServer(names) }

    private func makePort() throws -> MessagePort { MessagePort(try LocalMessagePort(nameServer: names)) }

    @Test func `a name finds the port`() throws {
        let port = try makePort()
        #expect(server.registerPort(port, name: "one"))
        #expect(server.registerPort(port, name: "two"))
        #expect(server.registerPort(port, name: "two"))
        #expect(!server.registerPort(try makePort(), name: "two"))
        #expect(server.port(forName: "one") === port)
        #expect(server.port(forName: "two", host: nil) === port)
        #expect(server.port(forName: "two", host: "localhost") === port)
        #expect(server.port(forName: "two", host: "elsewhere.example") == nil)
        #expect(server.port(forName: "none") == nil)
        #expect(server.removePort(forName: "one"))
        #expect(!server.removePort(forName: "one"))
        #expect(server.port(forName: "one") == nil)
        port.invalidate()
        #expect(server.port(forName: "two") == nil)
        // What has no right to receive gets no name.
        #expect(!server.registerPort(NSMachPort(machPort: 0), name: "three"))
    }

    @Test func `a service takes its name, and receives at its port`() throws {
        let bootstrap = NSMachBootstrapServer(names)
        let port = try #require(bootstrap.servicePort(withName: "service") as? NSMachPort)
        #expect(bootstrap.servicePort(withName: "service") == nil)
        #expect(bootstrap.port(forName: "service") === port)
        var text = ""
        let receiver = Receiver { text = $0.texts.joined() }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let thread = Helper { [names] in
            try? names.port(forName: "service").send(MachPort.Message(bytes: Array("asked".utf8)))
        }
        runLoop { !text.isEmpty }
        #expect(text == "asked")
        thread.join()
        port.invalidate()
        #expect(bootstrap.port(forName: "service") == nil)
        #expect(bootstrap.servicePort(withName: "service") != nil)
    }

    @Test func `the default name servers are the process's`() {
        #expect(MessagePortNameServer.sharedInstance() === MessagePortNameServer.sharedInstance())
        #expect(NSMachBootstrapServer.sharedInstance() === NSMachBootstrapServer.sharedInstance())
        #expect(PortNameServer.systemDefault() === MessagePortNameServer.sharedInstance())
    }

    @Test func `a message port of the library gets messages, and answers to the port that came with them`() throws {
        let thread = try RunLoopThread { _ in }
        defer { thread.stop() }
        let far = try LocalMessagePort(name: "far", nameServer: names) { request in
            #expect(request.replyRight == nil)
            try? request.message.replyPort?.send(MachPort.Message(id: request.id + 1, bytes: [7]))
        }
        try far.schedule(in: thread.loop)
        let port = try makePort()
        var answer: PortMessage?
        let receiver = Receiver { answer = $0 }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let found = try #require(server.port(forName: "far"))
        #expect(found is MessagePort)
        #expect(found.send(4, "hello", from: port))
        runLoop { answer != nil }
        #expect(answer?.msgid == 5)
        #expect(answer?.components?.first as? Data == Data([7]))
        port.invalidate()
    }

    @Test(arguments: [false, true])
    func `a request gets the first message to its send port as the reply`(_ isFar: Bool) throws {
        let port = try makePort()
        #expect(server.registerPort(port, name: "echo"))
        var isHandled = false
        let receiver = Receiver { message in
            let reply = message.sendPort
            #expect(reply?.isValid == true)
            #expect(reply is MessagePort)
            #expect(reply?.send(0, message.texts.joined().uppercased()) == true)
            #expect(reply?.isValid == false)
            #expect(reply?.send(0, "again") == false)
            isHandled = true
        }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let asked = isFar ? PortRuntime(directory: folder.path).nameServer : names
        let asker = Helper { () -> [UInt8]? in
            do {
                return try RemoteMessagePort(name: "echo", nameServer: asked).request(id: 1, Array("hello".utf8))
            } catch {
                return nil
            }
        }
        runLoop { isHandled }
        #expect(asker.value() == Array("HELLO".utf8))
        port.invalidate()
    }

    @Test func `a request to a port without a delegate is unanswered`() throws {
        let port = try makePort()
        let right = try #require(port.sendRight)
        RunLoop.current.add(port, forMode: .default)
        let asker = Helper { () -> PortError? in
            do throws(PortError) {
                _ = try RemoteMessagePort(right).request(id: 1, nil, timeout: .seconds(50))
                return nil
            } catch {
                return error
            }
        }
        #expect(RunLoop.current.run(mode: .default, before: .patience))
        #expect(asker.value() == .some(.unanswered(port: right.identity)))
        port.invalidate()
    }

    @Test func `a request whose message is dropped is unanswered`() throws {
        let port = try makePort()
        let right = try #require(port.sendRight)
        var isHandled = false
        let receiver = Receiver { _ in isHandled = true }
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let asker = Helper { () -> PortError? in
            do throws(PortError) {
                _ = try RemoteMessagePort(right).request(id: 1, nil, timeout: .seconds(50))
                return nil
            } catch {
                return error
            }
        }
        runLoop { isHandled }
        #expect(asker.value() == .some(.unanswered(port: right.identity)))
        port.invalidate()
    }
}
