import RunLoops

/// Lives on the main thread, and is told there what its loads come to.
final class Reader: LoaderDelegate {
    private let loader: Loader
    private var received: [String: [UInt8]] = [:]
    private var finished: [String] = []

    init(_ loader: Loader) { self.loader = loader }

    func start(_ name: String) {
        do {
            _ = try loader.load(name, from: Network.connect(to: name), delegate: self)
        } catch {
            print("Main: \(name) cannot be loaded: \(error)")
            ThreadRunLoop.main.stop()
        }
    }

    func load(_ load: Load, didReceive data: [UInt8]) {
        received[load.name, default: []] += data
        guard load.name == "endless", received[load.name, default: []].count > 1 << 20 else { return }
        print("Main: I have a megabyte of endless, which is enough. I cancel the load.")
        load.cancel()
    }

    func loadDidFinish(_ load: Load) {
        finished.append(load.name)
        guard finished.count == 2 else { return }
        print("Main: both are there, as I was told on the main thread: \(ThreadRunLoop.main.isCurrent ? "yes" : "no").")
        for name in finished.sorted() { print("   \(name): \(received[name, default: []].count) bytes") }
        print("Main: I load what is not there.")
        start("missing")
    }

    func load(_ load: Load, didFailWith reason: String) {
        print("   \(load.name): \(reason)")
        print("Main: I load what has no end.")
        start("endless")
    }
}
