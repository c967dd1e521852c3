import Glibc
import OwnThread
import TestSupport
import Testing
import XPCTestHelper

@testable import XPC

/// Conditions on the process at the other end.
@Suite(.ownThread) struct PeerRequirementTests {
    private let names = Names()

    private static let unmet: [XPCPeerRequirement] = [
        .isFromSameTeam(), .isFromSameTeam(andMatchesSigningIdentifier: "app"), .isPlatformCode(),
        .hasEntitlement("a"), .entitlement("a", matches: true), .entitlement("a", matches: 1),
        .entitlement("a", matches: "b"), .init(lightweightCodeRequirements: ["team-identifier": "a"]),
        .user(geteuid() + 1), .group(getegid() + 1),
    ]

    private func echo(_ request: XPCListener.IncomingSessionRequest) -> XPCListener.IncomingSessionRequest.Decision {
        request.accept { (message: XPCReceivedMessage) -> (any Encodable)? in
            Answer(text: "\(message.senderSatisfies(.user(geteuid()))) \(message.senderSatisfies(.isFromSameTeam()))")
        }
    }

    @Test func `a listener takes sessions of the user and group that it requires`() throws {
        for requirement in [XPCPeerRequirement.user(geteuid()), .group(getegid())] {
            let listener = try names.listener(requirement: requirement, echo)
            let session = try names.session(requirement: requirement)
            let answer: Answer = try session.sendSync(Question(number: 1))
            #expect(answer.text == "true false")
            session.cancel(reason: "done")
            listener.cancel()
        }
    }

    @Test func `a listener refuses all sessions for a requirement that is not met`() throws {
        for requirement in Self.unmet {
            let listener = try names.listener(requirement: requirement) { request in
                Issue.record("the handler was asked")
                return echo(request)
            }
            let ends = Ends()
            let session = try names.session(cancellation: ends.handler)
            #expect(throws: XPCRichError.self) { let _: Answer = try session.sendSync(Question(number: 1)) }
            #expect(ends.wait()?.description.contains("requirement") == true)
            listener.cancel()
        }
    }

    @Test func `a session whose requirement is not met sends nothing`() throws {
        let listener = try names.listener { request in
            request.accept { (message: XPCReceivedMessage) -> (any Encodable)? in
                Issue.record("a message has arrived")
                return nil
            }
        }
        for requirement in Self.unmet {
            let ends = Ends()
            let session = try names.session(requirement: requirement, cancellation: ends.handler)
            #expect(throws: XPCRichError.self) { let _: Answer = try session.sendSync(Question(number: 1)) }
            #expect(ends.wait()?.description.contains("requirement") == true)
        }
        listener.cancel()
    }

    @Test func `a program decides what stands for signatures`() throws {
        let service = try names.startService("serve-signed")
        let session = try names.session()
        let report: Report = try session.sendSync(Command(.echo, "same user"))
        #expect(report.text == "same user")
        session.cancel(reason: "done")
        #expect(service.isRunning)
    }
}
