import Asking
import NIOPosix
import Ports

let port = try LocalMessagePort()
let service = Service(on: MultiThreadedEventLoopGroup.singleton.next())
let asker = try startAsking(port)
try await service.serve(port)
print("the port has ended")
