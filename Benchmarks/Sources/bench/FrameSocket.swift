/// A socket whose messages are raw libzmq's frames: a number and a payload.
protocol FrameSocket {
    func send(_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws

    /// Sleeps until there are messages, and takes all there are. Without a limit if the seconds are negative.
    func receive(
        within seconds: Int32, _ body: (_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws -> Void) throws
}

extension FrameSocket {
    /// Sends a message without a payload.
    func send(_ number: UInt32) throws { try send(number, UnsafeRawBufferPointer(start: nil, count: 0)) }

    func waitForAnswer() throws {
        var isAnswered = false
        while !isAnswered { try receive(within: answerSeconds) { _, _ in isAnswered = true } }
    }

    /// Counts and answers, for ever.
    func echo(to outbox: some FrameSocket) throws {
        var echo = Echo()
        while true {
            try receive(within: -1) { number, payload in
                switch echo.reply(to: number) {
                case .none: break
                case .payload: try outbox.send(Request.answer, payload)
                case .empty: try outbox.send(Request.answer)
                }
            }
        }
    }
}
