import CGLib
import Ports

/// Has GLib's main context handle a port's messages, until the port is invalid.
func serve(_ port: LocalMessagePort) throws(PortError) {
    let descriptor = try PortDescriptor(port)
    g_unix_fd_add_full(
        G_PRIORITY_DEFAULT, descriptor.fileDescriptor, G_IO_IN,
        { _, _, data in
            guard let data else { return 0 }
            let descriptor = Unmanaged<PortDescriptor<LocalMessagePort>>.fromOpaque(data).takeUnretainedValue()
            // It throws when the port has ended: 0 has GLib remove the source.
            return (try? descriptor.handle()) == nil ? 0 : 1
        }, Unmanaged.passRetained(descriptor).toOpaque(),
        { data in if let data { Unmanaged<PortDescriptor<LocalMessagePort>>.fromOpaque(data).release() } })
}
