import RunLoops

// Work for the time when a loop has nothing else to do: it is done when the loop is about to sleep.

let loop = ThreadRunLoop.main
var pass = 0
var drawn: [Int] = []

// A task may come from any thread. What it shares with the rest of the main thread is the main actor's, as `drawn` is.
@MainActor
func draw(_ number: Int) {
    drawn.append(number)
    print("  Thumbnail \(number) is drawn.")
}

loop.addObserver(.beforeTimers) { _, _ in
    pass += 1
    print("Pass \(pass):")
}

print("Four thumbnails are drawn when the loop is idle. The budget is zero: one at a time.")
let thumbnails = try ThreadRunLoop.IdleQueue(in: loop, budget: .zero)
let requests = try (1...4).map { number in
    try thumbnails.add(
        ThreadRunLoop.mainActor {
            draw(number)
            guard number == 1 else { return }
            print("  Meanwhile a key is pressed.")
            try? loop.perform { print("  The key has its turn before the next thumbnail.") }
        })
}
requests[2].cancel()
print("Thumbnail 3 is taken back: nobody wants it any more. \(thumbnails.count) are left.")
try thumbnails.add { loop.stop() }
try loop.run()

print("Three more, with a budget of a second: they are drawn in one go.")
let quick = try ThreadRunLoop.IdleQueue(in: loop, budget: .seconds(1))
for number in 5...7 { try quick.add(ThreadRunLoop.mainActor { draw(number) }) }
try quick.add { loop.stop() }
try loop.run()
print("\(drawn.count) are drawn, and none waits: the loop can sleep as long as it likes.")
