import CoreFoundationPorts
import Glibc
import OwnThread
import TestSupport
import Testing

/// CFFileDescriptor as a Swift program calls it. The C program has the rest.
@Suite(.ownThread) struct FileDescriptorTests {
    private final class Input {
        var bytes: [UInt8] = []
    }

    @Test func `a Swift program reads what comes`() throws {
        var ends: [Int32] = [0, 0]
        let kind = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue
        #expect(socketpair(AF_UNIX, Int32(kind), 0, &ends) == 0)
        let input = Input()
        var context = CFFileDescriptorContext()
        context.info = Unmanaged.passUnretained(input).toOpaque()
        let file = try #require(
            CFFileDescriptorCreate(
                kCFAllocatorDefault, ends[0], true,
                { file, types, info in
                    guard let file, let info, types == kCFFileDescriptorReadCallBack else { return }
                    let input = Unmanaged<Input>.fromOpaque(info).takeUnretainedValue()
                    var byte: UInt8 = 0
                    if read(CFFileDescriptorGetNativeDescriptor(file), &byte, 1) == 1 { input.bytes.append(byte) }
                    CFFileDescriptorEnableCallBacks(file, kCFFileDescriptorReadCallBack)
                }, &context))
        CFFileDescriptorEnableCallBacks(file, kCFFileDescriptorReadCallBack)
        CFRunLoopAddSource(
            CFRunLoopGetCurrent(), CFFileDescriptorCreateRunLoopSource(kCFAllocatorDefault, file, 0), .defaultMode)
        #expect(write(ends[1], "abc", 3) == 3)
        for _ in 0..<3 { #expect(CFRunLoopRunInMode(.defaultMode, 10, true) == .handledSource) }
        #expect(input.bytes == Array("abc".utf8))
        #expect(CFRunLoopRunInMode(.defaultMode, 0, true) == .timedOut)
        CFFileDescriptorInvalidate(file)
        #expect(!CFFileDescriptorIsValid(file))
        #expect(CFRunLoopRunInMode(.defaultMode, 0, true) == .finished)
        // The number may be another file's by now. A fork of another test may have the socket for a moment.
        var writer = pollfd(fd: ends[1], events: 0, revents: 0)
        #expect(waitUntil { poll(&writer, 1, 0) == 1 && writer.revents & Int16(POLLHUP) != 0 })
        close(ends[1])
    }
}
