import XPC

/// A command of the tests to the helper's service.
package struct Command: Codable, Sendable {
    package enum Verb: String, Codable, Sendable {
        /// Reply with the text.
        case echo
        /// Reply with the number of the process.
        case process
        /// Send a number of messages to the session, and then reply.
        case push
        /// Reply, and then send a number of messages to the session.
        case replyAndPush
        /// Note the text.
        case note
        /// Reply with the number of texts that were noted, and whether they are numbers in order.
        case notes
        /// Keep the message, and never reply.
        case keep
        /// Crash.
        case crash
        /// Return without a reply.
        case drop
        /// Cancel the session.
        case cancel
        /// Send the text to the endpoint.
        case call
        /// Reply with the number of sessions that have ended.
        case ended
        /// Reply with the bytes of heap in use, and the number of threads.
        case usage
    }

    package var verb: Verb
    package var text: String
    package var count: Int
    package var endpoint: XPCEndpoint?

    package init(_ verb: Verb, _ text: String = "", count: Int = 0) {
        (self.verb, self.text, self.count) = (verb, text, count)
    }
}

/// The helper's reply, and what it pushes.
package struct Report: Codable, Sendable, Equatable {
    package var text: String
    package init(text: String) { self.text = text }
}
