import Foundation
import Ports
import RunLoops

/// Stands for the network: a thread for each connection writes a page into it.
enum Network {
    private static let pages = [
        "news": String(repeating: "It is all about ports. ", count: 10_000), "weather": "It rains.",
    ]

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// Asks for a page.
    static func connect(to page: String) throws -> Int32 {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0 else {
            throw Failure(description: "socketpair: \(String(cString: strerror(errno)))")
        }
        let (near, far) = (ends[0], ends[1])
        write(near, page, page.utf8.count)
        Thread.detachNewThread {
            answer(page, over: far)
            close(far)
        }
        return near
    }

    private static func answer(_ page: String, over descriptor: Int32) {
        // Hanging up with the request unread is a reset to the other side.
        guard page == "endless" || pages[page] != nil else { return }
        var request = [UInt8](repeating: 0, count: page.utf8.count)
        _ = read(descriptor, &request, request.count)
        repeat {
            guard writeAll(Array((pages[page] ?? "and so on, ").utf8), to: descriptor) else {
                print("Network: the connection of \(page) was closed.")
                return ThreadRunLoop.main.stop()
            }
        } while page == "endless"
    }

    private static func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0 { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}
