extension PortRuntime {
    /// The version of the package swift-ports.
    public static let packageVersion = "0.1.0"
}
