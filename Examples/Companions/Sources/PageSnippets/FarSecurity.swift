import NATSPorts

func connect() async throws -> NATSConnection {
    try await NATSConnection(
        "tls://nats-1.example.com,tls://nats-2.example.com",
        options: NATSOptions(
            name: "dictionaryd", authentication: .credentials(file: "/etc/dictionaryd/nats.creds"),
            tls: .init(authoritiesFile: "/etc/dictionaryd/authority.pem")))
}
