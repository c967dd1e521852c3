import TypedPorts

/// Asks the worker to write a report into a file, a pipe or a socket.
struct WriteReport: PortRequest {
    typealias Reply = Int
    var title: String
    var output: MessageDescriptor
}
