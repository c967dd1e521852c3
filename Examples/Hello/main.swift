import Ports
import RunLoops

// The main thread makes a port, launches a worker with it, and then runs its loop.
let port = try MachPort { message in
    for case .bytes(let bytes) in message.components {
        print("The worker says:", String(decoding: bytes, as: UTF8.self))
    }
    ThreadRunLoop.main.stop()
}
try port.schedule(in: .main)

// The worker makes its own port, checks in with it, and sends back what it gets, reversed.
let worker = try WorkerThread.launch(port: port.sendRight) { checkIn in
    let mine = try MachPort()
    let parent = try checkIn.complete(with: mine)
    mine.setHandler { message in
        guard case .bytes(let bytes)? = message.components.first else { return }
        try? parent.send(MachPort.Message(id: 2, [.bytes(bytes.reversed())]))
    }
    try mine.schedule(in: .current)
}

// From here on the worker has checked in, and main has its port.
print("The worker has checked in.")
try worker.port.send(MachPort.Message(id: 1, [.bytes(Array("!olleH".utf8))]))
try ThreadRunLoop.main.run()
