import TypedPorts

/// Says who has answered, after a while.
package struct Echo: PortRequest, NetworkRequest {
    package typealias Reply = Echoed
    package var text: String
    package var delay: Duration

    package init(_ text: String, after delay: Duration = .zero) { (self.text, self.delay) = (text, delay) }
}

/// The answer to ``Echo``.
package struct Echoed: Codable, Sendable, Hashable {
    package var text: String
    /// The server that has answered.
    package var server: String

    package init(text: String, server: String) { (self.text, self.server) = (text, server) }
}

/// Fails with a number.
package struct Fail: PortRequest, NetworkRequest {
    package typealias Reply = EmptyReply
    package struct Failure: Error, Codable, Sendable, Hashable {
        package var number: Int
        package init(number: Int) { self.number = number }
    }
    package var number: Int
    package init(number: Int) { self.number = number }
}

/// The numbers from 0, each with some bytes more.
package struct Numbers: PortStreamRequest, NetworkRequest {
    package struct Element: Codable, Sendable, Hashable {
        package var number: Int
        package var filling: [UInt8]
    }
    package typealias Failure = Fail.Failure
    package var count: Int
    package var size: Int
    /// Fails after the last, with the number.
    package var fails: Bool
    /// The time between two elements.
    package var pause: Duration

    package init(count: Int, size: Int = 0, fails: Bool = false, pause: Duration = .zero) {
        (self.count, self.size, self.fails, self.pause) = (count, size, fails, pause)
    }
}

extension RequestServer {
    /// Handles all requests of this file.
    /// - Parameters:
    ///   - noteEcho: Called with the text of each request before it is handled.
    ///   - note: Called with each number that the server produces.
    package func handleFarRequests(
        as name: String, noteEcho: @escaping @Sendable (String) -> Void = { _ in },
        note: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        handle(Echo.self) { echo in
            noteEcho(echo.text)
            if echo.delay > .zero { try await Task.sleep(for: echo.delay) }
            return Echoed(text: echo.text, server: name)
        }
        handle(Fail.self) { throw Fail.Failure(number: $0.number) }
        handle(Numbers.self) { numbers in
            let filling = [UInt8](repeating: 7, count: numbers.size)
            let next = Counter()
            return AsyncThrowingStream<Numbers.Element, any Error> {
                let number = await next.next()
                if number > 0, numbers.pause > .zero { try await Task.sleep(for: numbers.pause) }
                if number == numbers.count {
                    if numbers.fails { throw Fail.Failure(number: number) }
                    return nil
                }
                note(number)
                return Numbers.Element(number: number, filling: filling)
            }
        }
    }
}

private actor Counter {
    private var number = -1
    func next() -> Int {
        number += 1
        return number
    }
}
