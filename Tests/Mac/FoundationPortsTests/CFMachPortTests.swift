import Foundation
import FoundationPorts
import OwnThread
import TestSupport
import Testing

/// CFMachPort as a Swift program calls it, beside NSMachPort. The C program has the rest.
@Suite(.ownThread) struct CFMachPortTests {
    private final class Notes {
        var ids: [Int32] = []
        var bytes: [UInt8] = []
    }

    private func make(_ notes: Notes) throws -> CFMachPort {
        var context = CFMachPortContext()
        context.info = Unmanaged.passUnretained(notes).toOpaque()
        return try #require(
            CFMachPortCreate(
                kCFAllocatorDefault,
                { _, message, size, info in
                    guard let message, let info else { return }
                    let notes = Unmanaged<Notes>.fromOpaque(info).takeUnretainedValue()
                    notes.ids.append(message.load(as: mach_msg_header_t.self).msgh_id)
                    let all = UnsafeRawBufferPointer(start: message, count: size)
                    notes.bytes = Array(all.dropFirst(MemoryLayout<mach_msg_header_t>.size))
                }, &context, nil))
    }

    private func add(_ port: CFMachPort) {
        let source = CFMachPortCreateRunLoopSource(kCFAllocatorDefault, port, 0)
        CFRunLoopAddSource(CFRunLoopGetCurrent(), source, .defaultMode)
    }

    @Test func `an NSMachPort sends to a CFMachPort by its number`() throws {
        let notes = Notes()
        let port = try make(notes)
        add(port)
        let sender = NSMachPort(machPort: CFMachPortGetPort(port))
        #expect(sender.machPort == CFMachPortGetPort(port))
        let parts: NSMutableArray = [Data("ab".utf8) as NSData, Data("c".utf8) as NSData]
        #expect(
            sender.send(before: Date(timeIntervalSinceNow: 10), msgid: 5, components: parts, from: nil, reserved: 0))
        #expect(CFRunLoopRunInMode(.defaultMode, 10, true) == .handledSource)
        #expect(notes.ids == [5])
        #expect(notes.bytes == Array("abc".utf8))
        CFMachPortInvalidate(port)
        #expect(waitUntil { !sender.isValid })
        #expect(!NSMachPort(machPort: CFMachPortGetPort(port)).isValid)
    }

    @Test func `a CFMachPort names an NSMachPort, and ends with it`() throws {
        let named = NSMachPort()
        let port = try #require(CFMachPortCreateWithPort(kCFAllocatorDefault, named.machPort, nil, nil, nil))
        #expect(CFMachPortGetPort(port) == named.machPort)
        // The messages go to the delegate of the NSMachPort.
        add(port)
        #expect(CFMachPortIsValid(port))
        named.invalidate()
        #expect(waitUntil { !CFMachPortIsValid(port) })
    }

    @Test func `a number is of one port, also after its objects are gone`() throws {
        let notes = Notes()
        let port = try make(notes)
        let number = CFMachPortGetPort(port)
        do {
            let sender = NSMachPort(machPort: number)
            #expect(sender.machPort == number)
        }
        #expect(CFMachPortIsValid(port))
        #expect(NSMachPort(machPort: number).isValid)
        #expect(NSMachPort().machPort != number)
        CFMachPortInvalidate(port)
    }
}
