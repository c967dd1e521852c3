import Ports
import Systemd

/// A number in memory that the service manager keeps for the daemon's next process.
struct Counter {
    private let memory: SharedBuffer

    /// Takes the memory of the process before, or makes memory and stores it.
    init() async throws {
        let name = "counter"
        if let passed = try SystemdDaemon.takeDescriptors().first(where: { $0.name == name }) {
            memory = try SharedBuffer(MessageDescriptor(owning: passed.descriptor))
        } else {
            memory = try SharedBuffer(byteCount: MemoryLayout<Int>.size)
            let descriptor = try memory.makeDescriptor()
            try await SystemdDaemon.notify(.storeDescriptor(descriptor.number, name: name))
            withExtendedLifetime(descriptor) {}
        }
    }

    /// Zero in new memory.
    var value: Int {
        get { memory.withUnsafeMutableBytes { $0.load(as: Int.self) } }
        nonmutating set { memory.withUnsafeMutableBytes { $0.storeBytes(of: newValue, as: Int.self) } }
    }
}
