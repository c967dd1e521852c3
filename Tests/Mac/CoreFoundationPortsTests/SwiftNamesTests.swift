import CoreFoundationPorts
import DarwinNames
import Foundation
import OwnThread
import TestSupport
import Testing

@Suite(.ownThread) struct SwiftNamesTests {
    @Test func `a literal is a CFString`() {
        let name = "com.example.péage" as CFString
        #expect(CFStringGetLength(name) == 17)
        #expect(CFEqual(name, "com.example.péage" as CFString))
        #expect(CFStringGetLength("" as CFString) == 0)
        #expect(CFStringGetLength("é" as CFString) == 1)
    }

    @Test func `modes have the names that Swift on macOS gives them`() {
        #expect(CFEqual(CFRunLoopMode.defaultMode, kCFRunLoopDefaultMode))
        #expect(CFEqual(CFRunLoopMode.commonModes, kCFRunLoopCommonModes))
        #expect(CFRunLoopMode.defaultMode.rawValue === kCFRunLoopDefaultMode)
        #expect(CFEqual(CFRunLoopMode("own" as CFString), CFRunLoopMode(rawValue: "own" as CFString)))
    }

    @Test func `a mode is made of its name, and has it`() {
        let mode = CFRunLoopMode("com.example.mode" as CFString)
        #expect(CFEqual(mode, CFRunLoopMode(rawValue: "com.example.mode" as CFString)))
        #expect(CFEqual(CFRunLoopMode.defaultMode!.rawValue, CFRunLoopMode.defaultMode.rawValue))
        CFRunLoopRunInMode(mode, 0, false)
        CFRunLoopRunInMode(.defaultMode, 0, false)
    }

    @Test func `a flag that a function sets is a DarwinBoolean`() {
        var shouldFreeInfo: DarwinBoolean = true
        let port = CFMessagePortCreateLocal(kCFAllocatorDefault, nil, nil, nil, &shouldFreeInfo)
        #expect(port != nil)
        #expect(!shouldFreeInfo.boolValue)
    }

    @Test func `strings are made of other values, and objects go into sets`() {
        let number = 7
        let name = "com.example.\(number)" as CFString
        #expect(String(name) == "com.example.7")
        #expect(name == "com.example.7" as CFString)
        #expect(Set([name, "com.example.7", "other"]).count == 2)
        #expect(CFRunLoopMode.defaultMode == kCFRunLoopDefaultMode)
        #expect(Set([CFRunLoopGetCurrent(), CFRunLoopGetCurrent()]).count == 1)
        #expect([1, 2].cfData == [1, 2].cfData)
    }

    /// With a loop, a source and a port of another thread, in Swift 6 without a word.
    @Test func `any thread may have loops, sources and ports`() throws {
        let name = "com.example.sendable.\(getpid())"
        let made = CFMessagePortCreateLocal(nil, name.cfString, { _, _, _, _ in nil }, nil, nil)
        let port = try #require(made)
        let source = try #require(CFMessagePortCreateRunLoopSource(nil, port, 0))
        let loop = try #require(CFRunLoopGetCurrent())
        let timer = CFRunLoopTimerCreateWithHandler(nil, CFAbsoluteTimeGetCurrent() + 60, 0, 0, 0) { _ in }
        CFRunLoopAddSource(loop, source, .defaultMode)
        CFRunLoopAddTimer(loop, timer, .defaultMode)
        let ender = Thread {
            CFMessagePortInvalidate(port)
            // Also when the loop does not run yet.
            CFRunLoopPerformBlock(loop, kCFRunLoopDefaultMode) { CFRunLoopStop(CFRunLoopGetCurrent()) }
            CFRunLoopWakeUp(loop)
        }
        ender.start()
        #expect(CFRunLoopRunInMode(.defaultMode, 60, false) == .stopped)
        #expect(waitUntil { !CFRunLoopSourceIsValid(source) })
        CFRunLoopTimerInvalidate(timer)
    }
}
