#if !CommandLine
    import Glibc

    /// Takes the place of the command when the package is built without swift-argument-parser.
    @main
    struct Portctl {
        static func main() {
            report(
                """
                this build has no commands, because the package's trait “CommandLine” is off. Run `make install`, or \
                `swift build --traits Ports,CommandLine --product portctl`
                """)
            exit(1)
        }
    }
#endif
