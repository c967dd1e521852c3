import CRunLoopShims
import RunLoops

/// A datagram to the service manager.
struct NotificationDatagram: Equatable {
    var text: String
    var descriptors: [Int32] = []

    /// systemd ignores longer ones.
    static let mostBytes = 4096

    /// The datagrams of notifications, in their order. Notifications about descriptors have datagrams of their own, because
    /// a datagram has one name for its descriptors.
    static func all(_ notifications: [SystemdDaemon.Notification]) throws(SystemdError) -> [Self] {
        var datagrams: [Self] = []
        var isOpen = false
        for notification in notifications {
            let datagram = try Self(notification)
            let isAlone = notification.isAboutDescriptors
            if isOpen, !isAlone {
                datagrams[datagrams.count - 1].text += "\n" + datagram.text
            } else {
                datagrams.append(datagram)
            }
            isOpen = !isAlone
        }
        for datagram in datagrams where datagram.text.utf8.count > mostBytes {
            throw .textTooLong(size: datagram.text.utf8.count, limit: mostBytes)
        }
        return datagrams
    }

    init(_ notification: SystemdDaemon.Notification) throws(SystemdError) {
        switch notification.kind {
        case .lines(let lines): self.init(lines)
        case .reloading: self.init(["RELOADING=1", "MONOTONIC_USEC=\(crl_now() / 1000)"])
        case .status(let text): self.init(["STATUS=" + text.asOneLine])
        case .extendTimeout(let duration):
            let allowed = Duration.microseconds(1) ... .seconds(365 * 86400)
            guard allowed.contains(duration) else {
                throw .invalidDuration(name: "extendTimeout", value: duration, allowed: allowed)
            }
            // Rounded up, so that the service gets all the time that it asks for.
            self.init(["EXTEND_TIMEOUT_USEC=\((duration.attoseconds + 999_999_999_999) / 1_000_000_000_000)"])
        case .storeDescriptors(let descriptors, let name, let isPolled):
            let allowed = 1...Int(CRL_MOST_DESCRIPTORS)
            guard allowed.contains(descriptors.count) else {
                throw .badDescriptorCount(descriptors.count, allowed: allowed)
            }
            self.init(["FDSTORE=1", try Self.line(for: name)] + (isPolled ? [] : ["FDPOLL=0"]))
            self.descriptors = descriptors
        case .removeDescriptors(let name): self.init(["FDSTOREREMOVE=1", try Self.line(for: name)])
        }
    }

    private init(_ lines: [String]) { text = lines.joined(separator: "\n") }

    private static func line(for name: String) throws(SystemdError) -> String {
        let isAllowed = name.utf8.allSatisfy { (0x20..<0x7F).contains($0) && $0 != UInt8(ascii: ":") }
        guard isAllowed, (1...255).contains(name.utf8.count) else { throw .badDescriptorName(name) }
        return "FDNAME=" + name
    }
}

extension SystemdDaemon.Notification {
    fileprivate var isAboutDescriptors: Bool {
        switch kind {
        case .storeDescriptors, .removeDescriptors: true
        case .lines, .reloading, .status, .extendTimeout: false
        }
    }
}

extension String {
    /// A new line would begin another notification, and a NUL makes systemd ignore all of them.
    fileprivate var asOneLine: String {
        String(String.UnicodeScalarView(unicodeScalars.map { $0.properties.generalCategory == .control ? " " : $0 }))
    }
}
