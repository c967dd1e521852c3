import Glibc
import RunLoops

// How UIKit gets its touches: a Source1 takes raw events, puts them into a queue, and signals a Source0. The next pass
// performs the Source0, which hands the events to the application. In this program a pipe is the device.

let loop = ThreadRunLoop.main
let device = Device()
let queue = EventQueue()

// On macOS, observers of the loop make an autorelease pool at the entry, and empty it before each sleep and at the exit.
// Swift on Linux has no autorelease pools: an object ends with its last reference, so the loop needs no such observers.
let application = ThreadRunLoop.Source0(
    label: "event queue",
    perform: ThreadRunLoop.local {
        let events = queue.takeAll()
        print("Source0: the application handles \(events.count) events.")
        for event in events { print("   \(event.text)") }
    })
try loop.add(application)

try loop.add(
    .descriptor(
        device.output, label: "device",
        handler: ThreadRunLoop.local { _, _ in
            let bytes = device.read()
            print("Source1: \(bytes.count) raw events go into the queue, and the Source0 is signalled.")
            for byte in bytes { queue.append(byte) }
            application.signal()
        }))

var sleeps = 0
loop.addObserver(.beforeWaiting) { _, _ in
    sleeps += 1
    print("The loop is about to sleep.")
    if sleeps == 1 { device.write("dmmmmu") } else { loop.stop() }
}
try loop.run()
device.close()
