import Foundation
import FoundationPorts
import RunLoops

// Foundation's loop of the main thread lives while ours runs: timers, notifications of what is read in the background,
// and performs, beside items of ours.

let loop = ThreadRunLoop.main
loop.serveFoundation()

let pipe = Pipe()
let observer = NotificationCenter.default.addObserver(
    forName: FileHandle.readCompletionNotification, object: pipe.fileHandleForReading, queue: nil
) { notification in
    let data = notification.userInfo?[NSFileHandleNotificationDataItem] as? Data
    print("read in the background: \(data.map { String(decoding: $0, as: UTF8.self) } ?? "nothing")")
    RunLoop.main.perform {
        print("performed by Foundation's loop")
        try? ThreadRunLoop.main.perform {
            print("performed by ours")
            ThreadRunLoop.main.stop()
        }
    }
    // Foundation posts this notification when its loop is about to sleep, and its `perform` does not wake the loop.
    CFRunLoopWakeUp(RunLoop.main.getCFRunLoop())
}
pipe.fileHandleForReading.readInBackgroundAndNotify()

nonisolated(unsafe) var ticks = 0
// Sound: on the main thread alone.
_ = Foundation.Timer.scheduledTimer(withTimeInterval: 0.01, repeats: true) { timer in
    ticks += 1
    guard ticks == 3 else { return }
    timer.invalidate()
    print("\(ticks) ticks of a timer of Foundation's")
    loop.addTimer(after: .milliseconds(1)) { _ in
        print("a timer of ours")
        pipe.fileHandleForWriting.write(Data("text".utf8))
    }
}

try loop.run()
