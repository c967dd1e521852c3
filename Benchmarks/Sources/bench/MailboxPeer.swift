import CBench
import Dispatch

/// Two mailboxes, of the end that asks and of the end that answers.
final class MailboxPeer<Box: Mailbox>: HandingOver {
    private let near: Box
    private let far: Box
    private let end: End

    var canBind: Bool { Box.hasThread }

    init() throws {
        let end = End()
        let near = try Box { letter in
            // A pool's thread is born where the thread that needed it was bound.
            if !Box.hasThread { cb_unpin_new() }
            end.answered(letter)
        }
        let far = try Box { letter in
            if !Box.hasThread { cb_unpin_new() }
            switch end.echo.reply(to: letter.number) {
            case .none: break
            case .payload: near.post(Letter(Request.answer, copying: letter.payload))
            case .empty: near.post(Letter(Request.answer, copying: []))
            }
        }
        end.ask = { far.post($0) }
        (self.near, self.far, self.end) = (near, far, end)
    }

    func bind(_ placement: Placement) {
        guard canBind else { return }
        placement.bindNear()
        near.post(Letter(Request.bind(placement), copying: []))
        far.post(Letter(Request.bind(placement), copying: []))
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws {
        end.expect(Questions(1, asked: 1), nil)
        far.post(Letter(Request.expect(messages), copying: []))
        for _ in 0..<messages { far.post(Letter(Request.count, copying: payload)) }
        try end.isOver.waitForAnswer()
    }

    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws {
        let share = messages / threads.count
        end.expect(Questions(1, asked: 1), nil)
        far.post(Letter(Request.expect(share * threads.count), copying: []))
        try threads.run { [far] _ in
            for _ in 0..<share { far.post(Letter(Request.count, copying: payload)) }
        }
        try end.isOver.waitForAnswer()
    }

    func oneWay(_ messages: Int, handingOver bytes: SharedBytes) throws {
        end.expect(Questions(1, asked: 1), nil)
        far.post(Letter(Request.expect(messages), copying: []))
        for _ in 0..<messages { far.post(Letter(Request.count, sharing: bytes.array)) }
        try end.isOver.waitForAnswer()
    }

    func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
        end.expect(Questions(questions, asked: inFlight), clock)
        clock?.start()
        for _ in 0..<inFlight { far.post(Letter(Request.answer, copying: payload)) }
        try end.isOver.waitForAnswer()
    }
}

/// What each end keeps.
private final class End: @unchecked Sendable {
    // Sound: `echo` is the far end's alone. `questions` and `clock` are set while no message is under way, and the near
    // end alone uses them then. `ask` is set before the first message.
    var echo = Echo()
    private var questions = Questions(1, asked: 1)
    private var clock: TripClock?
    var ask: (Letter) -> Void = { _ in }
    let isOver = DispatchSemaphore(value: 0)

    func expect(_ questions: Questions, _ clock: TripClock?) {
        self.questions = questions
        self.clock = clock
    }

    func answered(_ letter: Letter) {
        if let placement = Request.placement(letter.number) { return placement.bindNear() }
        clock?.tick()
        switch questions.answered() {
        case .ask: ask(Letter(Request.answer, copying: letter.payload))
        case .wait: break
        case .finish: isOver.signal()
        }
    }
}
