import RunLoops

/// What the thread does.
func threadMain() throws {
    // The thread's loop is made here, where it is first asked for.
    let loop = ThreadRunLoop.current

    var counts: [(name: String, activity: ThreadRunLoop.Activity, count: Int)] = [
        ("entered", .entry, 0), ("left", .exit, 0), ("about to sleep", .beforeWaiting, 0),
    ]
    loop.addObserver(.all) { _, activity in
        for index in counts.indices where counts[index].activity == activity { counts[index].count += 1 }
    }

    // Without the timer, or another item, the mode would be empty, and each run would end at once.
    var fires = 0
    loop.addTimer(after: .milliseconds(2), repeats: true) { _ in fires += 1 }

    var runsWithFire = 0
    for _ in 1...10 {
        let before = fires
        try loop.run(until: .now + .milliseconds(20))
        if fires > before { runsWithFire += 1 }
    }
    for (name, activity, count) in counts {
        // How often the loop sleeps depends on the machine.
        print("The loop was \(name) \(activity == .beforeWaiting ? "at least \(min(count, 10))" : "\(count)") times.")
    }
    print("The timer has fired in \(runsWithFire) of the 10 runs.")
}
