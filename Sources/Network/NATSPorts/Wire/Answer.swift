#if NATS
    import Ports

    /// A frame that goes to an asker.
    enum Answer: Sendable {
        /// The reply.
        case reply(id: UInt32, [[UInt8]])
        /// The handler has failed.
        case failed(RequestFailure)
        /// The server handles as many requests of this kind as it may.
        case busy(limit: Int)
        /// Nobody has handled the request, so that another server may be asked.
        case refused
        /// No reply follows.
        case unanswered
        /// A stream has begun. Its server is reached by the subject.
        case begun(holder: String)
        /// Elements of a stream. Their frames and the end have numbers, from 0.
        case elements(number: UInt32, id: UInt32, [[UInt8]])
        /// The end of a stream, with the failure of its handler.
        case end(number: UInt32, RequestFailure?)
        /// The server has these requests in progress, and has sent a number of frames of each stream.
        case held(holder: String, [HeldRequest])

        struct HeldRequest: Sendable {
            let number: UInt64
            let sent: UInt32
        }

        private enum Kind: UInt8 {
            case reply = 64
            case failed, busy, refused, unanswered, begun, elements, end, held
        }

        var frame: [UInt8] {
            switch self {
            case .reply(let id, let components):
                var writer = FrameWriter(Kind.reply.rawValue, components)
                writer.append(id)
                writer.append(components)
                return writer.bytes
            case .failed(let failure):
                var writer = FrameWriter(Kind.failed.rawValue)
                writer.append(failure)
                return writer.bytes
            case .busy(let limit):
                var writer = FrameWriter(Kind.busy.rawValue)
                writer.append(UInt64(limit))
                return writer.bytes
            case .refused: return FrameWriter(Kind.refused.rawValue).bytes
            case .unanswered: return FrameWriter(Kind.unanswered.rawValue).bytes
            case .begun(let holder):
                var writer = FrameWriter(Kind.begun.rawValue)
                writer.append(holder)
                return writer.bytes
            case .elements(let number, let id, let components):
                var writer = FrameWriter(Kind.elements.rawValue, components)
                writer.append(number)
                writer.append(id)
                writer.append(components)
                return writer.bytes
            case .end(let number, let failure):
                var writer = FrameWriter(Kind.end.rawValue)
                writer.append(number)
                writer.append(UInt8(failure == nil ? 0 : 1))
                if let failure { writer.append(failure) }
                return writer.bytes
            case .held(let holder, let requests):
                var writer = FrameWriter(Kind.held.rawValue)
                writer.append(holder)
                writer.append(UInt16(clamping: requests.count))
                for request in requests {
                    writer.append(request.number)
                    writer.append(request.sent)
                }
                return writer.bytes
            }
        }

        init(_ bytes: [UInt8]) throws(FrameReader.Malformed) {
            var reader = try FrameReader(bytes)
            switch Kind(rawValue: reader.kind) {
            case .reply: self = .reply(id: try reader.number(), try reader.parts())
            case .failed: self = .failed(try reader.failure())
            case .busy: self = .busy(limit: Int(clamping: try reader.number(UInt64.self)))
            case .refused: self = .refused
            case .unanswered: self = .unanswered
            case .begun: self = .begun(holder: try reader.text())
            case .elements:
                self = .elements(number: try reader.number(), id: try reader.number(), try reader.parts())
            case .end:
                let number = try reader.number(UInt32.self)
                self = .end(number: number, try reader.number(UInt8.self) == 0 ? nil : try reader.failure())
            case .held:
                let (holder, count) = (try reader.text(), try reader.number(UInt16.self))
                var requests: [HeldRequest] = []
                for _ in 0..<count {
                    requests.append(HeldRequest(number: try reader.number(), sent: try reader.number()))
                }
                self = .held(holder: holder, requests)
            case nil: throw FrameReader.Malformed()
            }
        }
    }

    extension FrameWriter {
        fileprivate mutating func append(_ failure: RequestFailure) {
            append(UInt8(failure.isUnknownRequest || failure.id == .unknownRequest ? 1 : 0))
            append(failure.components)
        }
    }

    extension FrameReader {
        fileprivate mutating func failure() throws(Malformed) -> RequestFailure {
            let isUnknownRequest = try number(UInt8.self) != 0
            return RequestFailure(components: try parts(), isUnknownRequest: isUnknownRequest)
        }
    }
#endif
