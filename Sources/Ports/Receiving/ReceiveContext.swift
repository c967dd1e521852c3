/// What the ports of a runtime share.
struct ReceiveContext: Sendable {
    let channels: ChannelTable
    let ports: PortTable
    let registry: Registry

    var control: ControlConnectionTable { channels.control }
    var housekeeping: Housekeeping { control.housekeeping }
}
