#if !CommandLine
    import Glibc

    /// Takes the place of the command when the package is built without swift-argument-parser.
    @main
    struct WordCount {
        static func main() {
            Progress.note(
                """
                this build reads no arguments, because the package's trait “CommandLine” is off. Run `make run`, or \
                `swift build --traits Ports,CommandLine --product wordcount`
                """)
            exit(1)
        }
    }
#endif
