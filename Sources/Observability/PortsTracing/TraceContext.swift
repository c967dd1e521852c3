#if Tracing
    import Ports
    import Tracing

    /// The form in which a service context travels: a component of bytes, behind all others. After the magic come the
    /// keys and values, each with its length before it, as two bytes.
    enum TraceContext {
        private static let magic = Array("PORTCTX1".utf8)
        /// Larger ones are neither sent nor read.
        private static let largest = 8 << 10

        /// Nil when the tracer has nothing to send.
        static func bytes(of context: ServiceContext, _ tracer: any Tracer) -> [UInt8]? {
            if context.isEmpty { return nil }
            var bytes = magic
            bytes.reserveCapacity(128)
            tracer.inject(context, into: &bytes, using: Writer())
            return bytes.count > magic.count && bytes.count <= largest ? bytes : nil
        }

        /// The context in a component of a message; nil when there is none. A peer may have sent anything.
        static func context(in component: Int, of message: MachPort.Message, _ tracer: any Tracer) -> ServiceContext? {
            guard component >= 0 else { return nil }
            let found = message.withBytes(ofComponent: component) { $0.withUnsafeBytes { texts(in: $0) } }
            guard let texts = found ?? nil else { return nil }
            var context = ServiceContext.topLevel
            tracer.extract(texts, into: &context, using: Reader())
            return context
        }

        /// The keys and values after the magic; nil when they are not well-formed.
        private static func texts(in bytes: UnsafeRawBufferPointer) -> [UInt8]? {
            let start = magic.count
            guard (start...largest).contains(bytes.count) else { return nil }
            let texts = UnsafeRawBufferPointer(rebasing: bytes[start...])
            return bytes.starts(with: magic) && isWellFormed(texts) ? Array(texts) : nil
        }

        private struct Writer: Injector {
            func inject(_ value: String, forKey key: String, into bytes: inout [UInt8]) {
                // The others travel without it.
                guard bytes.count + key.utf8.count + value.utf8.count + 4 <= largest else { return }
                append(key, to: &bytes)
                append(value, to: &bytes)
            }

            private func append(_ text: consuming String, to bytes: inout [UInt8]) {
                text.withUTF8 { text in
                    bytes.append(UInt8(truncatingIfNeeded: text.count >> 8))
                    bytes.append(UInt8(truncatingIfNeeded: text.count))
                    bytes.append(contentsOf: text)
                }
            }
        }

        private struct Reader: Extractor {
            func extract(key: String, from texts: [UInt8]) -> String? {
                texts.withUnsafeBytes { value(of: key, in: $0) }
            }
        }

        private static func value(of key: String, in texts: UnsafeRawBufferPointer) -> String? {
            var rest = texts
            while let found = popText(&rest), let value = popText(&rest) {
                if found.elementsEqual(key.utf8) { return String(decoding: value, as: UTF8.self) }
            }
            return nil
        }

        private static func isWellFormed(_ texts: UnsafeRawBufferPointer) -> Bool {
            var (rest, count) = (texts, 0)
            while popText(&rest) != nil { count += 1 }
            return rest.isEmpty && count.isMultiple(of: 2)
        }

        /// Nil, without a change, when there is no whole text.
        private static func popText(_ rest: inout UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
            guard rest.count >= 2 else { return nil }
            let end = 2 + Int(rest[0]) << 8 + Int(rest[1])
            guard end <= rest.count else { return nil }
            defer { rest = UnsafeRawBufferPointer(rebasing: rest[end...]) }
            return UnsafeRawBufferPointer(rebasing: rest[2..<end])
        }
    }
#endif
