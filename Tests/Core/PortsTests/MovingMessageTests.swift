import TestSupport
import Testing

@testable import Ports

/// The values that the messages of a move bring.
struct MovingMessageTests {
    let sandbox = Sandbox()

    private func message(_ components: [MachPort.Message.Component]) -> MachPort.Message {
        MachPort.Message(.complete, components)
    }

    @Test func `what a port takes along is read as it was written`() {
        let names = [
            MovedContents.Name(path: "/a", name: "one", isService: true),
            MovedContents.Name(path: "/b", name: "two", isService: false),
        ]
        let moved = MovedContents(message(MovedContents(messageCount: 7, names: names).components))
        #expect(moved.messageCount == 7)
        #expect(moved.names == names)
    }

    @Test func `names that are no text, or not whole, are left out`() throws {
        let whole = MovedContents(
            messageCount: 1, names: [.init(path: "/a", name: "one", isService: true)]
        ).components
        #expect(MovedContents(message(whole + [.bytes([0xFF]), .bytes([0x61]), .bytes([1])])).names.count == 1)
        #expect(MovedContents(message(whole + [.bytes([0x61]), .bytes([0x61])])).names.count == 1)
        let empty = MovedContents(message([]))
        #expect(empty.messageCount == nil)
        #expect(empty.names == [])
    }

    @Test func `the terms of a loan are read as they were written`() throws {
        let desk = try MachPort(nameServer: sandbox.names)
        let lender = PortBorrowing(desk.id, desk.sendRight)
        func read(_ terms: LoanTerms) -> LoanTerms? {
            LoanTerms(MachPort.Message(.begin, [.port(desk.sendRight)] + terms.components))
        }
        let (passedOn, lent) = (read(LoanTerms(lender)), SentPipe())
        #expect(passedOn != nil && passedOn?.taken == nil && passedOn?.reason == nil)
        let full = read(LoanTerms(lender, taken: lent.descriptor, reason: "it was killed"))
        #expect(full?.taken == lent.descriptor)
        #expect(full?.reason == "it was killed")
        #expect(LoanTerms(MachPort.Message(.begin, [.port(desk.sendRight)])) == nil)
        let unnamed = MachPort.Message(.begin, [.port(desk.sendRight), .bytes([1]), .port(desk.sendRight)])
        #expect(LoanTerms(unnamed) == nil)
    }
}
