import Asking
import Ports

let port = try LocalMessagePort(handler: reversed)
let asker = try startAsking(port)
do {
    try serve(port)
} catch PortError.isInvalid {
    print("the port has ended")
}
