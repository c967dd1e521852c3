import RunLoops

/// A script as data, so that it can be made from a seed, printed and cut down.
///
/// What waits for the clock has a date on a grid of 5 ms that begins with the script, and has it alone.
package struct GeneratedScript: Sendable, CustomStringConvertible {
    struct Item: Sendable {
        enum Kind: Sendable {
            case source0(order: Int)
            case port
            case timer(Date, every: Int)
            /// One of those that are due at the same time; it does nothing but be heard of.
            case twin(Date)
            case observer(ThreadRunLoop.Activity, repeats: Bool, order: Int)
        }

        let name: String
        let kind: Kind
        /// What it does when it is called first, second, and so on; then it does nothing.
        var callouts: [[Action]] = []
    }

    enum Date: Sendable {
        case past
        case slot(Int)
        case far
    }

    indirect enum Action: Sendable {
        case add(Int, mode: Int)
        case remove(Int, mode: Int)
        case invalidate(Int)
        case signal(Int)
        case raise(Int)
        case redate(Int, Date)
        case block(String, modes: [Int], [Action])
        case joinCommon(mode: Int)
        case stop
        case wakeUp
        /// Polls, without a slot.
        case run(mode: Int, until: Int?, returning: Bool)
        /// Whether the item is valid, and in the mode.
        case ask(Int, mode: Int)
        case askModes
        /// Keeps the thread busy past so many slots.
        case spin(Int)
        /// Another thread does it while this one waits.
        case elsewhere([Action])
        /// Another thread does it when its time has come.
        case later(Int, [Action])
        case mainQueue(String, [Action])
    }

    static let common = -1
    static let slot = 5

    let seed: UInt64
    var items: [Item]
    var actions: [Action]

    package var description: String {
        (items.map { "\($0.name): \($0.kind) \($0.callouts)" } + actions.map { "- \($0)" }).joined(separator: "\n")
    }
}

// MARK: - Cutting down

extension GeneratedScript {
    /// The same with one thing less, in every way there is.
    var reductions: [GeneratedScript] {
        var all = Self.reductions(of: actions).map { actions in
            var script = self
            script.actions = actions
            return script
        }
        for (index, item) in items.enumerated() {
            for (call, actions) in item.callouts.enumerated() {
                all += Self.reductions(of: actions).map { actions in
                    var script = self
                    script.items[index].callouts[call] = actions
                    return script
                }
            }
        }
        return all
    }

    private static func reductions(of actions: [Action]) -> [[Action]] {
        var all: [[Action]] = []
        if actions.count > 3 {
            all += [Array(actions.prefix(actions.count / 2)), Array(actions.suffix(actions.count / 2))]
        }
        for (index, action) in actions.enumerated() {
            var less = actions
            less.remove(at: index)
            all.append(less)
            let inner: [Action] =
                switch action {
                case .block(let name, let modes, let body):
                    reductions(of: body).map { .block(name, modes: modes, $0) }
                case .elsewhere(let body): reductions(of: body).map { .elsewhere($0) }
                case .later(let slot, let body): reductions(of: body).map { .later(slot, $0) }
                case .mainQueue(let name, let body): reductions(of: body).map { .mainQueue(name, $0) }
                default: []
                }
            all += inner.map { reduced in
                var actions = actions
                actions[index] = reduced
                return actions
            }
        }
        return all
    }
}
