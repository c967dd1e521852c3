import RunLoops
import TestSupport

extension GeneratedScript {
    /// The script of a seed. Only the main thread's have business with the main queue.
    package init(seed: UInt64, onMain: Bool) {
        var generator = Generator(seed: seed, onMain: onMain)
        self = generator.script(seed)
    }
}

private struct Generator {
    typealias Action = GeneratedScript.Action
    typealias Date = GeneratedScript.Date
    typealias Item = GeneratedScript.Item

    private var random: SplitMix64
    private let onMain: Bool
    /// Whether the script waits for the clock at all: most need not, and are quick.
    private var isTimed = false
    private var hasSecondLoop = false
    private var items: [Item] = []
    private var modes = 1
    private var budget = 0
    private var blocks = 0
    /// The item whose callout is being made: it is apt to deal with itself.
    private var own: Int?

    // Slots of a cycle of eight: 0 and 1 belong to the repeating timers, the others are given out once each.
    private static let cycle = 8
    private var dates: [Int] = []
    private var limits: [Int] = []
    private var helpers: [Int] = []
    private var repeating = 0

    init(seed: UInt64, onMain: Bool) {
        random = SplitMix64(seed: seed)
        self.onMain = onMain
    }

    private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &random) }
    private mutating func chance(_ percent: Int) -> Bool { below(100) < percent }

    mutating func script(_ seed: UInt64) -> GeneratedScript {
        isTimed = chance(35)
        hasSecondLoop = chance(12)
        modes = 1 + below(3)
        dates = [2, 3, 4, 10, 11, 12].shuffled(using: &random)
        limits = [5, 6, 13, 14].shuffled(using: &random)
        helpers = [7, 15].shuffled(using: &random)
        // A timer of a short interval needs all slots for itself.
        let isQuick = isTimed && chance(10)
        if isQuick {
            dates = []
            limits = [12]
            helpers = []
            repeating = 2
            items.append(Item(name: "t0", kind: .timer(.slot(1), every: 2 * GeneratedScript.slot)))
        }
        for _ in 0..<(1 + below(8)) { addItem(items.count) }
        budget = 12 + below(40)
        for index in items.indices where items[index].twin == nil {
            own = index
            items[index].callouts = (0..<below(4)).map { _ in actions(upTo: 3, depth: 1) }
            if isSource0(index), chance(20) { items[index].moves = (0..<(1 + below(3))).map { _ in moveActions() } }
        }
        own = nil
        var main: [Action] = items.indices.compactMap { index in
            isSecondTwin(index) || !chance(85) ? nil : .add(index, mode: anyMode())
        }
        budget = max(budget, 12)
        for _ in 0..<(2 + below(4)) {
            main += actions(upTo: 4, depth: 0)
            main.append(run(depth: 0))
        }
        return GeneratedScript(seed: seed, isOrderly: chance(80), hasFarTimers: chance(50), items: items, actions: main)
    }

    // MARK: Items

    private mutating func addItem(_ index: Int) {
        switch below(20) {
        case 0...6: items.append(Item(name: "s\(index)", kind: .source0(order: below(3))))
        case 7...8: items.append(Item(name: "p\(index)", kind: .port))
        case 9: addTwins(index, .port)
        case 10...13:
            if isTimed, repeating < 2, chance(30) {
                let first: Date =
                    repeating == 0 ? (chance(50) ? .past : .slot(Self.cycle)) : .slot(1 + Self.cycle * below(2))
                items.append(
                    Item(name: "t\(index)", kind: .timer(first, every: GeneratedScript.longestInterval)))
                repeating += 1
            } else if isTimed, chance(15), let slot = dates.popLast() {
                addTwins(index, .timer(.slot(slot), every: 0))
            } else {
                items.append(Item(name: "t\(index)", kind: .timer(date(), every: chance(20) ? 60_000 : 0)))
            }
        default:
            let activities: ThreadRunLoop.Activity =
                chance(15)
                ? .all
                : ThreadRunLoop.Activity(rawValue: [1, 2, 4, 32, 64, 128].randomElement(using: &random) ?? 1)
                    .union(chance(30) ? .beforeTimers : []).union(chance(20) ? .exit : [])
            items.append(
                Item(name: "o\(index)", kind: .observer(activities, repeats: chance(60), order: (index * 3) % 7)))
        }
    }

    private mutating func addTwins(_ index: Int, _ kind: Item.Kind) {
        items.append(Item(name: "twin\(index)", kind: kind, twin: index + 1))
        items.append(Item(name: "twin\(index)'", kind: kind, twin: index))
    }

    private mutating func date() -> Date {
        if isTimed, chance(60), let slot = dates.popLast() { return .slot(slot) }
        return chance(60) ? .past : .far
    }

    private mutating func mode() -> Int { below(modes) }
    private mutating func anyMode() -> Int { chance(20) ? GeneratedScript.common : mode() }

    private mutating func item() -> Int {
        if let own, chance(25) { return own }
        return below(items.count)
    }

    private mutating func item(_ isOne: (Int) -> Bool) -> Int? {
        if let own, isOne(own), chance(25) { return own }
        return items.indices.filter(isOne).randomElement(using: &random)
    }

    // MARK: Actions

    private mutating func run(depth: Int) -> Action {
        let mode =
            chance(60) ? 0 : chance(10) ? (chance(30) ? GeneratedScript.common : GeneratedScript.nowhere) : mode()
        var limit = GeneratedScript.Limit.poll
        if isTimed, depth < 2, chance(6), let slot = helpers.popLast() {
            limit = .stop(slot)
        } else if isTimed, chance(depth == 0 ? 60 : 30), let slot = limits.popLast() {
            limit = .slot(slot)
        } else if chance(5) {
            limit = .negative
        }
        return .run(mode: mode, limit, returning: chance(30))
    }

    private mutating func actions(upTo count: Int, depth: Int) -> [Action] {
        (0..<below(count + 1)).compactMap { _ in
            budget -= 1
            return budget < 0 ? nil : action(depth: depth)
        }
    }

    private mutating func action(depth: Int) -> Action {
        switch below(depth < 3 ? 103 : 78) {
        case 0...11: return .add(item(), mode: anyMode())
        case 12...19: return .remove(item(), mode: anyMode())
        case 20...24: return .invalidate(item())
        case 25...40: return item(isSource0).map { .signal($0) } ?? .wakeUp
        case 41...48: return item(isPort).map { .raise($0) } ?? .stop
        case 49...54: return item(isPlainTimer).map { .redate($0, date()) } ?? .askLoop
        case 55...61: return .stop
        case 62...67: return .wakeUp
        case 68...71: return .ask(item(), mode: anyMode())
        case 72: return .askLoop
        case 73...74: return .joinCommon(mode: chance(20) ? GeneratedScript.nowhere : mode())
        case 75...77: return isTimed ? .spin(1 + below(3)) : .wakeUp
        case 78...85:
            let name = block("b")
            let modes = chance(70) ? [chance(20) ? GeneratedScript.common : mode()] : [mode(), anyMode()]
            return .block(name, modes: modes, actions(upTo: 2, depth: depth + 1))
        case 86...91: return run(depth: depth)
        case 92...94: return .elsewhere([simpleAction()])
        case 95...97:
            guard isTimed, let slot = helpers.popLast() else { return .elsewhere([simpleAction(), simpleAction()]) }
            return .later(slot, laterActions())
        case 98...99:
            guard onMain else { return .wakeUp }
            return .mainQueue(block("q"), actions(upTo: 2, depth: depth + 1))
        default:
            guard hasSecondLoop else { return .stop }
            let mode = mode()
            return .secondLoop(
                (0..<(1 + below(3))).map { _ in chance(60) ? .add(item(), mode: mode) : simpleAction() }
                    + [.run(mode: mode, .poll, returning: chance(30))])
        }
    }

    private mutating func block(_ kind: String) -> String {
        blocks += 1
        return "\(kind)\(blocks)"
    }

    /// What any thread may do.
    private mutating func simpleAction() -> Action {
        switch below(11) {
        case 0...1: return .add(item(), mode: anyMode())
        case 2: return .remove(item(), mode: anyMode())
        case 3: return .invalidate(item())
        case 4...5: return item(isSource0).map { .signal($0) } ?? .wakeUp
        case 6: return item(isPort).map { .raise($0) } ?? .stop
        case 7: return .stop
        case 8: return .block(block("b"), modes: [mode()], [])
        case 9: return item(isPlainTimer).map { .redate($0, chance(50) ? .past : .far) } ?? .joinCommon(mode: mode())
        default: return .wakeUp
        }
    }

    /// What a source may do when it joins or leaves: Foundation may hold its loop's lock then.
    private mutating func moveActions() -> [Action] {
        (0..<below(3)).map { _ in chance(30) ? .ask(item(), mode: anyMode()) : simpleAction() }
    }

    /// Only the last wakes the loop, which then finds the others done.
    private mutating func laterActions() -> [Action] {
        var actions: [Action] = chance(30) ? [.askLoop] : []
        if chance(50), let source = item(isSource0) { actions.append(.signal(source)) }
        if chance(30), let observer = item(isObserver) {
            actions.append(chance(50) ? .add(observer, mode: mode()) : .remove(observer, mode: mode()))
        }
        if chance(30), let timer = item(isPlainTimer) {
            actions.append(chance(50) ? .invalidate(timer) : .remove(timer, mode: mode()))
        }
        switch below(6) {
        case 0: break
        case 1: actions.append(.wakeUp)
        case 2: actions.append(.stop)
        case 3: actions.append(item(isPort).map { .raise($0) } ?? .wakeUp)
        case 4: actions.append(item(isPlainTimer).map { .redate($0, .past) } ?? .wakeUp)
        default: actions.append(.block(block("b"), modes: [mode()], []))
        }
        return actions
    }

    private func isSource0(_ index: Int) -> Bool { if case .source0 = items[index].kind { true } else { false } }
    private func isPort(_ index: Int) -> Bool { if case .port = items[index].kind { true } else { false } }
    private func isObserver(_ index: Int) -> Bool { if case .observer = items[index].kind { true } else { false } }
    private func isSecondTwin(_ index: Int) -> Bool { items[index].twin.map { $0 < index } ?? false }

    /// One whose date may be moved: that of one that repeats within the script keeps to its own slots.
    private func isPlainTimer(_ index: Int) -> Bool {
        guard items[index].twin == nil, case .timer(_, let every) = items[index].kind else { return false }
        return every == 0 || every > 1000
    }
}
