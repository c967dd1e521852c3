import Dispatch
import NIOCore
import NIOPosix

/// SwiftNIO: a channel over a unix socket, with a length before each message. The sending is done in the channel's
/// loop, which stops while the channel is not writable, and flushes once for many messages.
final class NIOPeer: Contender {
    private let group: MultiThreadedEventLoopGroup
    private let channel: any Channel
    private let asker: NIOAsker
    let child: Child?

    private init(_ group: MultiThreadedEventLoopGroup, _ channel: any Channel, _ asker: NIOAsker, _ child: Child) {
        self.group = group
        self.channel = channel
        self.asker = asker
        self.child = child
    }

    static let role = "nio"

    static func inChild(_ directory: String) throws -> NIOPeer {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let asker = NIOAsker()
        let connected = group.next().makePromise(of: (any Channel).self)
        let server = try ServerBootstrap(group: group).childChannelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandlers(ByteToMessageHandler(NIOFrameDecoder()), asker)
                connected.succeed(channel)
            }
        }.bind(unixDomainSocketPath: "\(directory)/nio").wait()
        let child = try Child("\(role) \(directory)")
        let channel = try connected.futureResult.wait()
        try server.close().wait()
        return NIOPeer(group, channel, asker, child)
    }

    /// The child's side; does not return.
    static func serve(_ directory: String) throws {
        let channel = try ClientBootstrap(group: MultiThreadedEventLoopGroup(numberOfThreads: 1))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(ByteToMessageHandler(NIOFrameDecoder()), NIOEcho())
                }
            }.connect(unixDomainSocketPath: "\(directory)/nio").wait()
        try channel.closeFuture.wait()
    }

    func bind(_ placement: Placement) throws {
        try channel.eventLoop.submit { placement.bindNear() }.wait()
        try channel.writeAndFlush(channel.frame(Request.bind(placement), [])).wait()
    }

    func oneWay(_ messages: Int, payload: [UInt8]) throws {
        try channel.eventLoop.submit { [asker, channel] in
            asker.questions = Questions(1, asked: 1)
            channel.write(channel.frame(Request.expect(messages), []), promise: nil)
            asker.send(messages, Request.count, payload, to: channel)
        }.wait()
        try asker.isOver.waitForAnswer()
    }

    func oneWay(_ messages: Int, payload: [UInt8], from threads: SenderThreads) throws {
        preconditionFailure("only threads of one process send side by side")
    }

    func roundTrips(_ questions: Int, inFlight: Int, payload: [UInt8], clock: TripClock?) throws {
        try channel.eventLoop.submit { [asker, channel] in
            asker.questions = Questions(questions, asked: inFlight)
            asker.clock = clock
            clock?.start()
            asker.send(inFlight, Request.answer, payload, to: channel)
        }.wait()
        try asker.isOver.waitForAnswer()
    }
}

/// The end that asks.
private final class NIOAsker: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = ByteBuffer

    // Sound: the channel's loop alone uses them.
    var questions = Questions(1, asked: 1)
    var clock: TripClock?
    private var unsent = 0
    private var number = Request.count
    private var payload: [UInt8] = []
    let isOver = DispatchSemaphore(value: 0)

    func send(_ messages: Int, _ number: UInt32, _ payload: [UInt8], to channel: any Channel) {
        (unsent, self.number, self.payload) = (messages, number, payload)
        sendWhileWritable(channel)
    }

    private func sendWhileWritable(_ channel: any Channel) {
        // A flush may make the channel writable again, without another event.
        while unsent > 0, channel.isWritable {
            while unsent > 0, channel.isWritable {
                unsent -= 1
                channel.write(channel.frame(number, payload), promise: nil)
            }
            channel.flush()
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if unsent > 0, context.channel.isWritable { sendWhileWritable(context.channel) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        clock?.tick()
        switch questions.answered() {
        case .ask:
            let answer = unwrapInboundIn(data)
            context.write(NIOAny(context.channel.frame(Request.answer, answer)), promise: nil)
        case .wait: break
        case .finish:
            clock = nil
            isOver.signal()
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }
}

/// The end that answers.
private final class NIOEcho: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private var echo = Echo()

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var message = unwrapInboundIn(data)
        guard let number = message.readInteger(endianness: .host, as: UInt32.self) else { return }
        switch echo.reply(to: number) {
        case .none: break
        case .payload:
            let answer = unwrapInboundIn(data)
            context.write(NIOAny(context.channel.frame(Request.answer, answer)), promise: nil)
        case .empty: context.write(NIOAny(context.channel.frame(Request.answer, [])), promise: nil)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }
}

/// Cuts the stream into messages: a number and the payload, after their length.
private struct NIOFrameDecoder: ByteToMessageDecoder {
    typealias InboundOut = ByteBuffer

    mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) -> DecodingState {
        guard let size = buffer.getInteger(at: buffer.readerIndex, endianness: .host, as: UInt32.self),
            buffer.readableBytes >= 4 + Int(size)
        else { return .needMoreData }
        buffer.moveReaderIndex(forwardBy: 4)
        guard let message = buffer.readSlice(length: Int(size)) else { return .needMoreData }
        context.fireChannelRead(wrapInboundOut(message))
        return .continue
    }
}

extension Channel {
    /// A message with bytes of its own.
    fileprivate func frame(_ number: UInt32, _ payload: [UInt8]) -> ByteBuffer {
        var frame = allocator.buffer(capacity: 8 + payload.count)
        frame.writeInteger(UInt32(4 + payload.count), endianness: .host)
        frame.writeInteger(number, endianness: .host)
        frame.writeBytes(payload)
        return frame
    }

    /// With the payload of a message that came.
    fileprivate func frame(_ number: UInt32, _ message: ByteBuffer) -> ByteBuffer {
        let payload = message.readableBytesView.dropFirst(4)
        var frame = allocator.buffer(capacity: 8 + payload.count)
        frame.writeInteger(UInt32(4 + payload.count), endianness: .host)
        frame.writeInteger(number, endianness: .host)
        frame.writeBytes(payload)
        return frame
    }
}
