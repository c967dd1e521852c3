#if CommandLine
    import ArgumentParser
    import Ports

    extension ExitCode {
        static let timeout = ExitCode(3)

        /// The exit status that stands for an error.
        init(_ error: PortError) {
            switch error {
            case .nameNotFound: self.init(2)
            case .sendTimedOut, .receiveTimedOut: self = .timeout
            case .isInvalid, .becameInvalid: self.init(4)
            case .unanswered, .refused, .failed, .serverBusy, .replyTooLarge: self.init(5)
            default: self.init(1)
            }
        }

        /// Reports an error for which a command has waited, and returns the status of a timeout.
        static func timeout(_ error: some Error) -> ExitCode {
            report(error)
            return timeout
        }
    }
#endif
