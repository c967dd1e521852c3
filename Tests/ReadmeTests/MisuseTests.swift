import OwnThread
import Testing

/// Uses of the library that would be data races: the compiler refuses them.
@Suite(.ownThread) struct MisuseTests {
    private static let counter = """
        import RunLoops
        final class Counter { var count = 0 }

        """

    @Test(arguments: [
        // Another thread calls `count` while this one does.
        """
        let counter = Counter()
        let give = ThreadRunLoop.local { counter }
        try ThreadRunLoop.current.perform { give().count += 1 }
        """,
        """
        var kept: [Counter] = []
        let take = ThreadRunLoop.local { (counter: Counter) in kept.append(counter) }
        try ThreadRunLoop.current.perform { take(Counter()) }
        """,
    ])
    func `a local closure neither takes nor returns what is not Sendable`(_ use: String) {
        #expect(Self.diagnostics(use).contains("conform to the 'Sendable' protocol"))
    }

    @Test func `a local closure may capture what is not Sendable`() {
        let use = """
            let counter = Counter()
            let count = ThreadRunLoop.local { (step: Int) in
                counter.count += step
                return counter.count
            }
            try ThreadRunLoop.current.perform { _ = count(1) }
            """
        #expect(Self.diagnostics(use) == "")
    }

    private static func diagnostics(_ use: String) -> String {
        Program(snippets: [Snippet(text: counter + use, page: "main", line: 1)]).diagnostics()
    }
}
