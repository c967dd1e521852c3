/// Layers that are drawn together. Changes are cheap: only a commit draws. It belongs to the main thread.
final class Screen {
    private var changes: [String: String] = [:]
    /// The explicit transactions that are open.
    private var depth = 0
    private(set) var commits = 0

    subscript(layer: String) -> String? {
        get { changes[layer] }
        set { changes[layer] = newValue }
    }

    /// Holds back all changes until ``end()``. Transactions nest, and the outermost counts.
    func begin() { depth += 1 }

    func end() {
        precondition(depth > 0, "end() without begin()")
        depth -= 1
        if depth == 0 { commit("the transaction ends") }
    }

    /// Draws what has changed; nothing if there is nothing, or a transaction is open.
    func commit(_ occasion: String) {
        guard depth == 0, !changes.isEmpty else { return }
        commits += 1
        let drawn = changes.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        print("   Commit \(commits), as \(occasion): \(drawn.joined(separator: ", "))")
        changes = [:]
    }
}
