import TestSupport
import Testing

@testable import Ports

/// The ends of a ledger's requests.
struct RequestLedgerTests {
    /// Hears what a server tells an asker of its own runtime.
    private final class Asker: RuntimeEvents {
        let ledger = RequestLedger(RequestNotices())
        let heard = Shared<[ControlMessage]>([])

        func received(_ message: ControlMessage, from incarnation: Incarnation) {
            // The port's end must not come first, because its process may exit with it.
            #expect(ledger.areDone.value == nil)
            #expect(!ledger.isEmpty)
            heard.withLock { $0.append(message) }
        }

        func received(_ message: ControlMessage, _ descriptors: [OwnedDescriptor], from peer: ControlConnection) {}
        func processDied(_ address: ControlAddress) {}
        func connectionBegan(_ peer: ControlConnection, owing ports: Set<UInt64>) {}
        func connectionEnded(_ peer: ControlConnection, isLast: Bool) {}
        func channelBecameInvalid(_ port: PortID) {}
        func requestRefused(_ number: UInt64, of asker: Incarnation) {}
        func mayBeAlive(_ address: ControlAddress, _ former: FormerPeer?) -> Bool { false }
        func place(of peer: Incarnation) -> (@Sendable () -> Bool)? { nil }
        func rights(to peer: Incarnation) -> [PeerRight] { [] }
        func ownPortHasMoved(_ number: UInt64) {}
        func home(of port: PortID, in directory: String) -> PortID? { nil }
        func nextHome(of port: PortID, after address: PortID, in directory: String, ownerDied: Bool) -> NextHome? {
            nil
        }
        func comesBack(_ number: UInt64, from home: PortID) throws(PortError) -> Bool { false }
        func portLeft(_ home: PortID, isTold: Bool) {}
        func requestReaddressed(_ request: UInt64, to home: PortID) {}
    }

    @Test(arguments: [RequestEnd.refused, .unanswered])
    func `an asker is told the end of its request before the port may end`(_ end: RequestEnd) throws {
        let (incarnation, housekeeping, asker) = (Incarnation.random(), Housekeeping(), Asker())
        let control = ControlConnectionTable(incarnation, housekeeping)
        control.events = asker
        let channels = ChannelTable(control)
        let right = try PortLimits().right(PortID(incarnation: incarnation, number: 1))
        let channel = channels.addOwnChannel(right, of: nil, LocalQueue(limit: 1))
        let request = try #require(asker.ledger.begin(channel, number: 5, subject: 7))
        asker.ledger.finish()
        asker.ledger.end(request, end)
        #expect(asker.heard.withLock { $0.count } == 1)
        #expect(asker.ledger.areDone.value != nil)
    }
}
