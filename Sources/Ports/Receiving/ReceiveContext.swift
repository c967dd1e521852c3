/// What the ports of a runtime share.
final class ReceiveContext: Sendable {
    let channels: ChannelTable
    let ports: PortTable
    let registry: Registry

    init(_ channels: ChannelTable, _ ports: PortTable, _ registry: Registry) {
        self.channels = channels
        self.ports = ports
        self.registry = registry
    }

    var control: ControlConnectionTable { channels.control }
    var housekeeping: Housekeeping { control.housekeeping }
}
