import CRunLoopShims
import Glibc
import ZeroMQ

@testable import Ports

/// A way for descriptors on which a sender sends any packets, ahead of any messages. Each step has 18 bytes: what it does,
/// a number of descriptors, and two numbers.
enum FuzzedDescriptors {
    private static let stepSize = 18
    private static let way: UInt64 = 7

    /// - Returns: What is wrong with what the port finds; nil when nothing is.
    static func fault(in bytes: UnsafeRawBufferPointer) -> String? {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return "no descriptor" }
        let reader = OwnedDescriptor(ends[0])
        if let fault = fault(in: bytes, passing: ends[1]) { return fault }
        // The way and all that came by it are closed.
        return crl_has_hung_up(reader.number) ? nil : "a descriptor stays open"
    }

    private static func fault(in bytes: UnsafeRawBufferPointer, passing number: Int32) -> String? {
        let passed = OwnedDescriptor(number)
        guard let (own, other) = DescriptorSocket.make() else { return "no descriptor" }
        var intake = DescriptorIntake()
        _ = intake.add(own, way, of: .random())
        for start in stride(from: 0, to: bytes.count - stepSize + 1, by: stepSize) {
            let (step, count) = (bytes[start], Int(bytes[start + 1] % 5))
            let fields: [UInt64] = [bytes.little(at: start + 2), bytes.little(at: start + 10)]
            if step & 1 == 0 {
                let passed = [Int32](repeating: passed.number, count: count)
                _ = crl_send_packet(other.number, fields, min(Int(step / 2), 16), passed, Int32(count))
                continue
            }
            let token = Wire.DescriptorToken(socket: step & 2 == 0 ? way : fields[1], packet: fields[0])
            guard let frame = frame(token, count) else { return "no memory" }
            intake.find(for: frame)
            guard case .success(let found)? = intake.take(token)?.result else { continue }
            if token.socket != way { return "found on a way that is none" }
            if found.count > 4 { return "more than were sent" }
            for descriptor in found where fcntl((try? descriptor.number) ?? -1, F_GETFD) != FD_CLOEXEC {
                return "a descriptor that is not open, or not closed on exec"
            }
            if found.contains(where: { (try? $0.mapFrozen()) != nil }) { return "a pipe is memory" }
        }
        return nil
    }

    private static func frame(_ token: Wire.DescriptorToken, _ count: Int) -> ZeroMQFrame? {
        let header = FrameHeader(count: count, descriptorCount: max(count, 1))
        guard var frame = try? ZeroMQFrame(count: header.componentsOffset + header.descriptorTokenSize) else {
            return nil
        }
        frame.withUnsafeMutableBytes { header.write(to: $0) }
        frame.setDescriptorToken(token)
        return frame
    }

    /// A packet and its message, missing and surplus packets, and others than were announced.
    static var seeds: [[UInt8]] {
        func step(_ step: UInt8, _ count: UInt8, _ first: UInt64, _ second: UInt64) -> [UInt8] {
            let numbers = [first, second].flatMap { number in
                (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
            }
            return [step, count] + numbers
        }
        let (send, take) = (32 as UInt8, 1 as UInt8)
        return [
            step(send, 2, 1, 2) + step(take, 2, 1, 0),
            step(take, 1, 1, 0) + step(send, 1, 1, 1),
            step(send, 1, 1, 1) + step(send, 1, 2, 1) + step(take, 1, 2, 0) + step(take, 1, 1, 0),
            step(send, 1, 5, 1) + step(take, 1, 1, 0) + step(take, 1, 5, 0),
            step(send, 1, 1, 3) + step(take, 1, 1, 0) + step(send, 3, 2, 1) + step(take, 3, 2, 0),
            step(0, 1, 1, 1) + step(8, 2, 2, 1) + step(take, 1, 2, 0) + step(3, 1, 1, 9),
        ]
    }
}
