import Synchronization
import Tracing

/// A tracer that makes ids, and sends and reads them as W3C's `traceparent`, and keeps nothing.
struct SpanlessTracer: Tracer {
    /// Whether spans want attributes. They drop them.
    let isRecording: Bool

    final class Span: Tracing.Span {
        let context: ServiceContext
        let isRecording: Bool

        init(_ context: ServiceContext, isRecording: Bool) { (self.context, self.isRecording) = (context, isRecording) }

        var operationName: String {
            get { "" }
            set {}
        }
        var attributes: SpanAttributes {
            get { [:] }
            set {}
        }
        func setStatus(_ status: SpanStatus) {}
        func addEvent(_ event: SpanEvent) {}
        func addLink(_ link: SpanLink) {}
        func end<I: TracerInstant>(at instant: @autoclosure () -> I) {}
        func recordError<I: TracerInstant>(
            _ error: any Error, attributes: SpanAttributes, at instant: @autoclosure () -> I
        ) {}
    }

    private struct IDs {
        var high, low, span: UInt64
    }

    private enum Key: ServiceContextKey { typealias Value = IDs }

    /// SplitMix64: a call of the system for each id would cost more than all else.
    private static let state = Atomic<UInt64>(.random(in: 0...(.max)))

    private var next: UInt64 {
        var bits = Self.state.wrappingAdd(0x9e37_79b9_7f4a_7c15, ordering: .relaxed).newValue
        bits = (bits ^ (bits >> 30)) &* 0xbf58_476d_1ce4_e5b9
        bits = (bits ^ (bits >> 27)) &* 0x94d0_49bb_1331_11eb
        return bits ^ (bits >> 31)
    }

    func startSpan<I: TracerInstant>(
        _ operationName: String, context: @autoclosure () -> ServiceContext, ofKind kind: SpanKind,
        at instant: @autoclosure () -> I, function: String, file fileID: String, line: UInt
    ) -> Span {
        var context = context()
        let trace = context[Key.self]
        context[Key.self] = IDs(high: trace?.high ?? next, low: trace?.low ?? next, span: next)
        return Span(context, isRecording: isRecording)
    }

    func forceFlush() {}

    func inject<Carrier, I: Injector>(
        _ context: ServiceContext, into carrier: inout Carrier, using injector: I
    ) where I.Carrier == Carrier {
        guard let ids = context[Key.self] else { return }
        let text = String(unsafeUninitializedCapacity: 55) { text in
            var count = 0
            func put(_ character: UInt8) {
                text[count] = character
                count += 1
            }
            func put(number: UInt64) {
                for shift in stride(from: 60, through: 0, by: -4) {
                    let digit = UInt8(truncatingIfNeeded: number >> UInt64(shift)) & 15
                    put(digit + (digit < 10 ? UInt8(ascii: "0") : UInt8(ascii: "a") - 10))
                }
            }
            for character in "00-".utf8 { put(character) }
            for number in [ids.high, ids.low] { put(number: number) }
            put(UInt8(ascii: "-"))
            put(number: ids.span)
            for character in (isRecording ? "-01" : "-00").utf8 { put(character) }
            return count
        }
        injector.inject(text, forKey: "traceparent", into: &carrier)
    }

    func extract<Carrier, E: Extractor>(
        _ carrier: Carrier, into context: inout ServiceContext, using extractor: E
    ) where E.Carrier == Carrier {
        guard var text = extractor.extract(key: "traceparent", from: carrier), text.utf8.count == 55 else { return }
        context[Key.self] = text.withUTF8 { text in
            func number(_ digits: Range<Int>) -> UInt64? {
                var number: UInt64 = 0
                for place in digits {
                    let character = text[place]
                    switch character {
                    case UInt8(ascii: "0")...UInt8(ascii: "9"):
                        number = number << 4 | UInt64(character &- UInt8(ascii: "0"))
                    case UInt8(ascii: "a")...UInt8(ascii: "f"):
                        number = number << 4 | UInt64(character &- UInt8(ascii: "a") &+ 10)
                    default: return nil
                    }
                }
                return number
            }
            guard let high = number(3..<19), let low = number(19..<35), let span = number(36..<52) else { return nil }
            return IDs(high: high, low: low, span: span)
        }
    }
}
