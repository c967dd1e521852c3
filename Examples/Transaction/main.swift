import RunLoops

// Changes that are gathered, and carried out together when the loop is about to sleep or its run ends, as CATransaction
// does it: an observer commits.

let loop = ThreadRunLoop.main
let screen = Screen()
// Core Animation's order. Whatever other observers change before the loop sleeps is committed, too.
loop.addObserver([.beforeWaiting, .exit], order: 2_000_000, label: "commit") { _, activity in
    screen.commit(activity == .exit ? "the run ends" : "the loop is about to sleep")
}
loop.addObserver(.beforeWaiting, repeats: false) { _, _ in
    print("An observer of a lower order changes something at the last moment.")
    screen["border"] = "thin"
}

print("Three changes in one callout, two of them of the same layer:")
try ThreadRunLoop.performOnMain {
    screen["title"] = "Ports"
    screen["colour"] = "red"
    screen["colour"] = "green"
}

loop.addTimer(after: .milliseconds(10)) { _ in
    print("A timer begins a transaction of its own, which another pass commits:")
    screen.begin()
    screen["title"] = "Run loops"
    loop.addTimer(after: .milliseconds(10)) { _ in
        print("   Meanwhile the loop has slept, and nothing was drawn.")
        screen["colour"] = "blue"
        screen.end()
        loop.addTimer(after: .milliseconds(10)) { _ in
            print("A change, and the loop is stopped: it does not sleep again.")
            screen["title"] = "The end"
            loop.stop()
        }
    }
}
try loop.run()
print("Seven changes have made \(screen.commits) commits.")
