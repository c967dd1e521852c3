#if NATS
    /// A frame that goes to servers. The reply subject of a request names its asker and its number.
    enum Question: Sendable {
        case request(id: UInt32, [[UInt8]])
        /// A request for a stream. The window is the number of frames that the server may send before it hears from the
        /// reader.
        case stream(id: UInt32, window: UInt32, [[UInt8]])
        /// The asker needs these requests no more: it gave them up, or has all elements of the stream.
        case release([String])
        /// The asker waits for these requests, and has taken a number of frames of each stream. With `wantsAnswer`, the server
        /// says which of them it has.
        case hold(asker: String, wantsAnswer: Bool, [HeldByAsker])

        struct HeldByAsker: Sendable {
            let number: UInt64
            let taken: UInt32
        }

        private enum Kind: UInt8 {
            case request = 1
            case stream, release, hold
        }

        var frame: [UInt8] {
            switch self {
            case .request(let id, let components):
                var writer = FrameWriter(Kind.request.rawValue, components)
                writer.append(id)
                writer.append(components)
                return writer.bytes
            case .stream(let id, let window, let components):
                var writer = FrameWriter(Kind.stream.rawValue, components)
                writer.append(id)
                writer.append(window)
                writer.append(components)
                return writer.bytes
            case .release(let requests):
                var writer = FrameWriter(Kind.release.rawValue)
                writer.append(requests.map { Array($0.utf8) })
                return writer.bytes
            case .hold(let asker, let wantsAnswer, let requests):
                var writer = FrameWriter(Kind.hold.rawValue)
                writer.append(asker)
                writer.append(UInt8(wantsAnswer ? 1 : 0))
                writer.append(UInt16(clamping: requests.count))
                for request in requests {
                    writer.append(request.number)
                    writer.append(request.taken)
                }
                return writer.bytes
            }
        }

        init(_ bytes: [UInt8]) throws(FrameReader.Malformed) {
            var reader = try FrameReader(bytes)
            switch Kind(rawValue: reader.kind) {
            case .request: self = .request(id: try reader.number(), try reader.parts())
            case .stream: self = .stream(id: try reader.number(), window: try reader.number(), try reader.parts())
            case .release:
                self = .release(try reader.parts().map { String(decoding: $0, as: UTF8.self) })
            case .hold:
                let (asker, wantsAnswer) = (try reader.text(), try reader.number(UInt8.self) != 0)
                let count = try reader.number(UInt16.self)
                var requests: [HeldByAsker] = []
                for _ in 0..<count {
                    requests.append(HeldByAsker(number: try reader.number(), taken: try reader.number()))
                }
                self = .hold(asker: asker, wantsAnswer: wantsAnswer, requests)
            case nil: throw FrameReader.Malformed()
            }
        }
    }
#endif
