#if Tracing
    import Glibc
    import Ports
    import RunLoopLocks
    import Tracing

    /// The name and the attributes of the spans of one kind of request.
    package final class SpanSubject: Sendable {
        let name: String
        let service: String?
        /// With OpenTelemetry's names.
        private let attributes: SpanAttributes
        /// The attributes of the spans with the last peer, which is most often the next one, too.
        private let ofPeer = Lock<(pid: pid_t, attributes: SpanAttributes)?>(nil)

        package init(_ request: String, _ service: String?) {
            self.service = service
            name = service.map { "\($0)/\(request)" } ?? request
            attributes = SpanAttributes(["rpc.system.name": .string("swift-ports"), "rpc.method": .string(name)])
        }

        /// Gives the attributes to a span that somebody keeps. All at once, as each change of a span's attributes may copy them.
        /// - Parameter network: The protocol by which the request goes to or comes from another machine.
        func describe(_ span: any Span, peer: @autoclosure () -> SenderCredentials?, _ network: String?) {
            guard span.isRecording else { return }
            var own = attributes(peer: peer())
            if let network {
                own["network.protocol.name"] = network
                own["network.transport"] = "tcp"
            }
            span.updateAttributes { attributes in
                if attributes.isEmpty { attributes = own } else { attributes.merge(own) }
            }
        }

        private func attributes(peer: SenderCredentials?) -> SpanAttributes {
            guard let peer else { return attributes }
            if let known = ofPeer.withLock({ $0 }), known.pid == peer.pid { return known.attributes }
            var attributes = attributes
            attributes.note(peer: peer)
            ofPeer.withLock { [attributes] in $0 = (peer.pid, attributes) }
            return attributes
        }
    }

    extension SpanAttributes {
        /// The process at the other end.
        mutating func note(peer: SenderCredentials?) {
            guard let peer else { return }
            self["peer.pid"] = Int(peer.pid)
            if peer.pid != getpid() { self["network.transport"] = "unix" }
        }
    }
#endif
