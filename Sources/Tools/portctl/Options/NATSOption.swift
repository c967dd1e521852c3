#if CommandLine
    import ArgumentParser
    import NATSPorts

    struct NATSOption: ParsableArguments {
        @Option(
            name: .customLong("nats"),
            help: ArgumentHelp(
                "Ask the servers on NATS, and not those of this machine: nats://HOST:4222, or tls://USER:PASSWORD@HOST.",
                valueName: "url"))
        var url: String?
        @Option(
            name: .customLong("nats-ca"),
            help: ArgumentHelp("The authorities' certificates for tls://; the system's by default.", valueName: "file"))
        var authoritiesFile: String?
        @Option(
            name: .customLong("nats-creds"),
            help: ArgumentHelp("The credentials for NATS, as nsc makes them.", valueName: "file"))
        var credentialsFile: String?

        func validate() throws {
            #if !NATS
                if url != nil {
                    throw ValidationError(
                        """
                        This portctl knows no NATS: install one with `make install NATS=1`, or build it with --traits \
                        Ports,CommandLine,NATS.
                        """)
                }
            #endif
            if url == nil, authoritiesFile != nil || credentialsFile != nil {
                throw ValidationError("--nats-ca and --nats-creds belong to --nats URL.")
            }
        }

        /// Connects; nil without a URL.
        func connection() throws -> NATSConnection? {
            #if NATS
                guard let url else { return nil }
                return try NATSConnection(
                    url,
                    options: NATSOptions(
                        name: "portctl", authentication: credentialsFile.map { .credentials(file: $0) },
                        tls: authoritiesFile.map { NATSOptions.TLS(authoritiesFile: $0) }))
            #else
                return nil
            #endif
        }
    }

    extension NATSError: Problem {}
#endif
