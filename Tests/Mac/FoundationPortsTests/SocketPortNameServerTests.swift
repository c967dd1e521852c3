import Foundation
import FoundationPorts
import OwnThread
import Ports
import TestSupport
import Testing

@Suite(.ownThread) struct SocketPortNameServerTests {
    private let folder = TemporaryFolder()
    private var names: PortNameServer { PortNameServer(directory: folder.path) }

    @Test func `a name leads to the socket of its port`() throws {
        let server = SocketPortNameServer(names)
        // Another process, as far as the registry can see.
        let client = SocketPortNameServer(PortRuntime(directory: folder.path).nameServer)
        let port = try #require(SocketPort(tcpPort: 0))
        #expect(client.port(forName: "com.example.socket") == nil)
        #expect(server.registerPort(port, name: "com.example.socket"))
        #expect(!client.registerPort(port, name: "com.example.socket"))
        for found in [
            client.port(forName: "com.example.socket"), server.port(forName: "com.example.socket"),
            client.port(forName: "com.example.socket", host: "localhost"),
            client.port(forName: "com.example.socket", host: nil, nameServerPortNumber: 7),
        ] {
            let socket = try #require(found as? SocketPort)
            #expect(socket.address == port.address)
            #expect(socket.protocolFamily == port.protocolFamily)
            #expect(socket.socketType == port.socketType)
        }
        #expect(client.port(forName: "com.example.socket", host: "elsewhere.example.com") == nil)
        #expect(!client.removePort(forName: "com.example.socket"))
        #expect(server.removePort(forName: "com.example.socket"))
        #expect(client.port(forName: "com.example.socket") == nil)
        #expect(client.registerPort(port, name: "com.example.socket", nameServerPortNumber: 0))
        client.removePort(forName: "com.example.socket")
    }

    @Test func `only a valid socket port gets a name`() throws {
        let server = SocketPortNameServer(names)
        #expect(!server.registerPort(MessagePort(), name: "com.example.socket"))
        let port = try #require(SocketPort(tcpPort: 0))
        #expect(server.registerPort(port, name: "com.example.socket"))
        port.invalidate()
        #expect(server.port(forName: "com.example.socket") == nil)
        #expect(!server.removePort(forName: "com.example.socket"))
        #expect(!server.registerPort(port, name: "com.example.socket"))
    }

    @Test func `the number of the name server is kept`() {
        let server = SocketPortNameServer(names)
        #expect(server.defaultNameServerPortNumber == NSSocketPortNameServer(names).defaultNameServerPortNumber)
        server.defaultNameServerPortNumber = 7
        #expect(server.defaultNameServerPortNumber == 7)
        #expect(SocketPortNameServer.sharedInstance() === SocketPortNameServer.sharedInstance())
    }
}
