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
        #expect(pipe(&ends) == 0)
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
        #expect(fcntl(ends[0], F_GETFD) == -1)
        close(ends[1])
    }
}
