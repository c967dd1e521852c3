import RunLoops

// The modes of a loop while somebody scrolls, as in UIKit: work in the default mode waits until the finger is lifted.

let tracking: ThreadRunLoop.Mode = "tracking"
let loop = ThreadRunLoop.main
try loop.addCommonMode(tracking)
loop.addObserver([.entry, .exit], forMode: .common) { _, activity in
    print("   \(activity == .entry ? "Entry" : "Exit"), mode \(loop.currentMode.map { "\($0)" } ?? "none")")
}

print("1. A loop cannot change the mode of a run. One run ends, and another begins.")
for mode in [.default, tracking] {
    try loop.perform(order: 0, inModes: [mode]) { loop.stop() }
    try loop.runInMode(mode, seconds: 10)
}

print("2. A callout runs the loop inside itself: the run in mode tracking is nested in the run in mode default.")
loop.addTimer(after: .zero, label: "touch") { _ in
    print("   A finger touches. An image arrives, which the default mode is to show.")
    _ = try? loop.perform(after: .milliseconds(1)) {
        print("   The image appears.")
        loop.stop()
    }
    _ = try? loop.perform(after: .milliseconds(1), inModes: [tracking]) { print("   The list scrolls.") }
    _ = try? loop.perform(after: .milliseconds(20), inModes: [tracking]) {
        print("   The finger is lifted, and stops the inner run.")
        loop.stop()
    }
    _ = try? loop.runInMode(tracking, seconds: 10)
    print("   The callout returns to the outer run.")
}
try loop.run()

print("3. Cells ask for their images after a delay. A cell that leaves the screen cancels.")
final class Cell: Sendable {}
let (first, second) = (Cell(), Cell())
let modes: [ThreadRunLoop.Mode] = [.default, tracking]
let small = try loop.perform(after: .milliseconds(1), inModes: modes, owner: first) { print("   The small image.") }
let large = try loop.perform(after: .milliseconds(2), inModes: modes, owner: first) { print("   The large image.") }
let others = try (1...3).map { number in
    try loop.perform(after: .milliseconds(3), inModes: modes, owner: second) { print("   Image \(number) of a cell.") }
}
try loop.perform(after: .milliseconds(4), inModes: modes) { loop.stop() }
small.cancel()
print("   One request was cancelled by its handle: \([small, large].filter(\.isPending).count) of 2 is pending.")
loop.cancelPerformRequests(of: second)
print("   All requests of the other cell were cancelled: \(others.filter(\.isPending).count) of 3 are pending.")
try loop.run()
