import RunLoops

// A timer that survives a mode switch: it is added to the common modes, not to the default one alone.

let tracking: ThreadRunLoop.Mode = "tracking"
let loop = ThreadRunLoop.main
var fired: Set<String> = []

loop.addTimer(after: .milliseconds(5), repeats: true) { _ in fired.insert("the default timer") }
loop.addTimer(after: .milliseconds(5), repeats: true, forMode: .common) { _ in fired.insert("the common timer") }
try loop.addCommonMode(tracking)
print("One timer is in the default mode, another in the common modes. Mode tracking has joined those later.")

for mode in [.default, tracking, .default] {
    fired = []
    try loop.runInMode(mode, seconds: 0.05)
    print("In mode \(mode): \(fired.sorted(by: >).joined(separator: " and ")) fired.")
}
print("The default timer only waited for its mode. What it missed became one call.")
