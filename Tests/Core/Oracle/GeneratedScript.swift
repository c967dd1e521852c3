import Foundation
import RunLoops

/// A script as data, so that it can be made from a seed, printed and cut down.
///
/// What waits for the clock has a date on a grid of slots that begins with the script, and has it alone.
package struct GeneratedScript: Sendable {
    struct Item: Sendable {
        enum Kind: Sendable {
            case source0(order: Int)
            case port
            case timer(Date, every: Int)
            case observer(ThreadRunLoop.Activity, repeats: Bool, order: Int)
        }

        let name: String
        let kind: Kind
        /// Its like: of two descriptors ready together and two timers due together either may be first. What happens to one happens to the other, and they do nothing but be heard of.
        var twin: Int?
        /// What it does when it is called first, second, and so on; then it does nothing.
        var callouts: [[Action]] = []
        /// The same for a source that joins or leaves a mode.
        var moves: [[Action]] = []
    }

    enum Date: Sendable {
        case past
        case slot(Int)
        case far
    }

    enum Limit: Sendable {
        case poll
        case negative
        case slot(Int)
        /// For ever; from that slot on another thread stops the loop, again and again.
        case stop(Int)
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
        case run(mode: Int, Limit, returning: Bool)
        /// Whether the item is valid, and in the mode.
        case ask(Int, mode: Int)
        /// What the loop tells of itself.
        case askLoop
        /// Keeps the thread busy past so many slots.
        case spin(Int)
        /// Another thread does it while this one waits.
        case elsewhere([Action])
        /// Another thread does it when its time has come.
        case later(Int, [Action])
        /// Another thread does it with its own loop while this one waits; its runs poll.
        case secondLoop([Action])
        case mainQueue(String, [Action])
    }

    static let common = -1
    /// All have the default mode and two more, used or not.
    static let modes = 0..<3
    /// A mode that nothing is added to but common items, if it becomes a common one.
    static let nowhere = 3
    /// In milliseconds. A busy machine makes two dates one, and less so with longer slots.
    static let slot = ProcessInfo.processInfo.environment["ORACLE_SLOT"].flatMap { Int($0) } ?? 5
    /// Of a timer that repeats within the script, in milliseconds.
    static let longestInterval = 8 * slot

    let seed: UInt64
    /// Where Foundation leaves a choice to the kernel, it is not given one: no descriptor is made ready while another
    /// is, or a timer is due, and a wake-up in a pass that does not sleep is taken away.
    let isOrderly: Bool
    /// Each mode has one more timer, far away: Foundation's kernel timer then always has a date to be set to.
    let hasFarTimers: Bool
    var items: [Item]
    var actions: [Action]

    /// The item, and its twin if it has one.
    func both(_ item: Int) -> [Int] { [item] + (items[item].twin.map { [$0] } ?? []) }
}

// MARK: - Printing

extension GeneratedScript: CustomStringConvertible {
    /// The items in use, and what the script does.
    package var description: String {
        let made = items.indices.filter { index in
            let texts = [text(actions)] + items.flatMap { ($0.callouts + $0.moves).map(text) }
            return texts.contains {
                $0.split { !"'".contains($0) && !$0.isLetter && !$0.isNumber }.contains(items[index].name[...])
            }
        }.map { index in
            let item = items[index]
            let calls = item.callouts.isEmpty ? "" : " called: " + item.callouts.map(text).joined(separator: " then ")
            let moves = item.moves.isEmpty ? "" : " joins, leaves: " + item.moves.map(text).joined(separator: " then ")
            return "\(item.name): \(text(item.kind))\(calls)\(moves)"
        }
        return (made + actions.map { "- \(text($0))" }).joined(separator: "\n")
    }

    private func text(_ kind: Item.Kind) -> String {
        switch kind {
        case .source0(let order): "source of order \(order)"
        case .port: "descriptor"
        case .timer(let date, let every): "timer \(date)" + (every > 0 ? " every \(every) ms" : "")
        case .observer(let activities, let repeats, let order):
            "observer of \(activities.labels)\(repeats ? "" : " once") of order \(order)"
        }
    }

    private func text(_ actions: [Action]) -> String { "{" + actions.map(text).joined(separator: "; ") + "}" }

    private func text(_ action: Action) -> String {
        switch action {
        case .add(let item, let mode): "add \(items[item].name) to \(Self.name(mode))"
        case .remove(let item, let mode): "remove \(items[item].name) from \(Self.name(mode))"
        case .invalidate(let item): "invalidate \(items[item].name)"
        case .signal(let item): "signal \(items[item].name)"
        case .raise(let item): "raise \(items[item].name)"
        case .redate(let item, let date): "redate \(items[item].name) \(date)"
        case .block(let name, let modes, let body): "block \(name) in \(modes.map(Self.name)) \(text(body))"
        case .joinCommon(let mode): "make \(Self.name(mode)) common"
        case .stop: "stop"
        case .wakeUp: "wake up"
        case .run(let mode, let limit, let returning): "run \(Self.name(mode)) \(limit)\(returning ? " returning" : "")"
        case .ask(let item, let mode): "ask for \(items[item].name) in \(Self.name(mode))"
        case .askLoop: "ask the loop"
        case .spin(let slots): "spin \(slots)"
        case .elsewhere(let actions): "elsewhere \(text(actions))"
        case .later(let slot, let actions): "at \(slot) \(text(actions))"
        case .secondLoop(let actions): "in the second loop \(text(actions))"
        case .mainQueue(let name, let actions): "main queue \(name) \(text(actions))"
        }
    }

    static func name(_ mode: Int) -> String {
        switch mode {
        case common: "common"
        case 0: "default"
        default: "m\(mode)"
        }
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
        for index in items.indices {
            for list in [\Item.callouts, \Item.moves] {
                all += Self.reductions(of: items[index][keyPath: list]).map { calls in
                    var script = self
                    script.items[index][keyPath: list] = calls
                    return script
                }
            }
        }
        return all
    }

    /// Whole calls first.
    private static func reductions(of calls: [[Action]]) -> [[[Action]]] {
        if calls.allSatisfy(\.isEmpty) { return calls.isEmpty ? [] : [[]] }
        var all: [[[Action]]] = [[]]
        for (call, actions) in calls.enumerated() {
            all += reductions(of: actions).map { actions in
                var calls = calls
                calls[call] = actions
                return calls
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
                case .run(let mode, .slot, let returning), .run(let mode, .stop, let returning):
                    [.run(mode: mode, .poll, returning: returning)]
                case .elsewhere(let body): reductions(of: body).map { .elsewhere($0) }
                case .later(let slot, let body): reductions(of: body).map { .later(slot, $0) }
                case .secondLoop(let body): reductions(of: body).map { .secondLoop($0) }
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
