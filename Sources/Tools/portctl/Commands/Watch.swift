#if CommandLine
    import ArgumentParser
    import Ports
    import RunLoops

    struct Watch: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show the present names, and then names as they come (+) and go (-), until interrupted.")

        @OptionGroup var output: JSONFlag

        func run() throws {
            let watch = try PortNameWatch()
            while true {
                switch try watch.next(before: ContinuousClock.now + .seconds(1)) {
                case .came(let registration)?: show("+", "came", registration)
                case .went(let registration)?: show("-", "went", registration)
                case nil: endUnread()
                }
            }
        }

        private func show(_ sign: String, _ event: String, _ registration: PortNameServer.Registration) {
            if output.isJSON {
                print(json: Change(event: event, registration: registration))
            } else {
                print("\(sign) \(registration.name.escaped)  \(registration.pid)  \(registration.shownProgram)")
            }
        }
    }

    private struct Change: Encodable {
        let event: String
        let registration: PortNameServer.Registration
    }
#endif
