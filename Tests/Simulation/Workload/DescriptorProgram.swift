@testable import Ports

/// What the descriptor of a message leads to.
enum SentDescriptor { case mark, memory }

// The descriptors and the memory in messages. Each is known by what is behind it.

extension Program {
    /// A descriptor for a message; nil when none is left.
    func makeDescriptor(_ line: Promises.Line, _ number: UInt32) -> MessageDescriptor? {
        if below(3) == 0 {
            let bytes = Self.contents(line.number, number)
            let memory = attempt { try SharedMemory(copying: bytes.span.bytes).makeDescriptor() }
            if memory != nil { line.descriptors[number] = .memory }
            return memory
        }
        let file = MarkFile(line.number, number)
        let descriptor = process.add(file)
        guard descriptor >= 0 else { return nil }
        promises.marks.append(file)
        line.descriptors[number] = .mark
        return MessageDescriptor(owning: descriptor)
    }

    private static func contents(_ line: UInt32, _ number: UInt32) -> [UInt8] {
        let numbers = [line, number]
        return numbers.withUnsafeBytes { (0..<600).flatMap { [bytes = Array($0)] _ in bytes } }
    }

    /// “The send takes the descriptor out of the object. […] When the send throws, the descriptor is back in its object.”
    func checkSent(_ descriptor: MessageDescriptor, isSent: Bool) {
        do throws(PortError) {
            let number = try descriptor.number
            if isSent { machine.fail("a descriptor that was sent is still there") }
            if process.descriptors[number] == nil { machine.fail("a descriptor that was not sent is closed") }
        } catch {
            if !isSent { machine.fail("a descriptor that was not sent is not back: \(error)") }
        }
    }

    /// “A descriptor comes with its message or not at all.”
    func checkDescriptor(of message: MachPort.Message, _ line: UInt32, _ number: UInt32) {
        let found = message.components.firstIndex { if case .descriptor = $0 { true } else { false } }
        let descriptor = found.flatMap { message.descriptor(ofComponent: $0) }
        guard let sent = promises.descriptor(of: number, line) else {
            if descriptor != nil { machine.fail("message \(number) came with a descriptor that nobody has sent") }
            return
        }
        guard let descriptor else { machine.fail("message \(number) came without its descriptor") }
        do throws(PortError) {
            switch sent {
            case .mark: checkMark(process.descriptors[try descriptor.number] as? MarkFile, line, number)
            case .memory: try checkMemory(descriptor, line, number)
            }
        } catch {
            switch error {
            case .descriptorLost where promises.mayLoseDescriptor(of: number, line): break
            // “[…] `outOfDescriptors` when the receiver's process had none left for them.” The kernel may refuse memory.
            case .outOfDescriptors, .transport: break
            default: machine.fail("message \(number) came without its descriptor: \(error)")
            }
        }
    }

    private func checkMark(_ mark: MarkFile?, _ line: UInt32, _ number: UInt32) {
        guard let mark, mark.line == line, mark.number == number else {
            machine.fail("message \(number) came with another descriptor")
        }
        if mark.isTaken { machine.fail("the descriptor of message \(number) came twice") }
        mark.isTaken = true
    }

    private func checkMemory(_ descriptor: MessageDescriptor, _ line: UInt32, _ number: UInt32) throws(PortError) {
        let memory = try SharedMemory(descriptor)
        let isOwn = memory.withBytes { $0.withUnsafeBytes { $0.elementsEqual(Self.contents(line, number)) } }
        if !isOwn { machine.fail("message \(number) came with other memory") }
    }
}
