#if Tracing
    import Ports
    import Tracing

    /// The form in which a service context travels: a component of bytes, behind all others. After the magic come the
    /// keys and values, each with its length before it, as two bytes.
    struct TraceContext: Injector, Extractor {
        private static let magic = Array("PORTCTX1".utf8)
        /// Larger ones are neither sent nor read.
        private static let largest = 8 << 10

        /// Nil when the tracer has nothing to send.
        static func bytes(of context: ServiceContext, _ tracer: any Tracer) -> [UInt8]? {
            var bytes = magic
            bytes.reserveCapacity(128)
            tracer.inject(context, into: &bytes, using: TraceContext())
            return bytes.count > magic.count && bytes.count <= largest ? bytes : nil
        }

        /// The context in a component of a message; nil when there is none. A peer may have sent anything.
        static func context(in component: Int, of message: MachPort.Message, _ tracer: any Tracer) -> ServiceContext? {
            guard component >= 0 else { return nil }
            let bytes = message.withBytes(ofComponent: component) { bytes -> [UInt8]? in
                guard (magic.count...largest).contains(bytes.byteCount) else { return nil }
                return bytes.withUnsafeBytes { $0.starts(with: magic) ? Array($0) : nil }
            }
            guard let bytes = bytes ?? nil, isWellFormed(bytes) else { return nil }
            var context = ServiceContext.topLevel
            tracer.extract(bytes, into: &context, using: TraceContext())
            return context
        }

        func inject(_ value: String, forKey key: String, into bytes: inout [UInt8]) {
            // One that is left out spoils nothing for the others.
            guard key.utf8.count + value.utf8.count < Self.largest else { return }
            for text in [key, value] {
                bytes.append(UInt8(truncatingIfNeeded: text.utf8.count >> 8))
                bytes.append(UInt8(truncatingIfNeeded: text.utf8.count))
                bytes.append(contentsOf: text.utf8)
            }
        }

        func extract(key: String, from bytes: [UInt8]) -> String? {
            var rest = bytes[Self.magic.count...]
            while let found = Self.popText(&rest), let value = Self.popText(&rest) {
                if found.elementsEqual(key.utf8) { return String(decoding: value, as: UTF8.self) }
            }
            return nil
        }

        private static func isWellFormed(_ bytes: [UInt8]) -> Bool {
            var (rest, count) = (bytes[magic.count...], 0)
            while popText(&rest) != nil { count += 1 }
            return rest.isEmpty && count.isMultiple(of: 2)
        }

        /// Nil, without a change, when there is no whole text.
        private static func popText(_ rest: inout ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
            let start = rest.startIndex
            guard rest.count >= 2 else { return nil }
            let end = start + 2 + Int(rest[start]) << 8 + Int(rest[start + 1])
            guard end <= rest.endIndex else { return nil }
            defer { rest = rest[end...] }
            return rest[(start + 2)..<end]
        }
    }
#endif
