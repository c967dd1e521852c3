import RunLoops

/// Numbers that a seed determines.
struct SplitMix64: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

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

    private var random: SplitMix64
    private let onMain: Bool
    /// Whether the script waits for the clock at all: most need not, and are quick.
    private var isTimed = false
    private var items: [GeneratedScript.Item] = []
    private var modes = 1
    private var budget = 0
    private var blocks = 0

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
        modes = 1 + below(3)
        dates = [2, 3, 4, 10, 11, 12].shuffled(using: &random)
        limits = [5, 6, 13, 14].shuffled(using: &random)
        helpers = [7, 15].shuffled(using: &random)
        for index in 0..<(1 + below(8)) { addItem(index) }
        budget = 12 + below(40)
        for index in items.indices {
            if case .twin = items[index].kind { continue }
            items[index].callouts = (0..<below(4)).map { _ in actions(upTo: 3, depth: 1) }
        }
        var main: [Action] = items.indices.compactMap { index in
            chance(85) ? .add(index, mode: anyMode()) : nil
        }
        budget = max(budget, 12)
        for _ in 0..<(2 + below(4)) {
            main += actions(upTo: 4, depth: 0)
            main.append(run(depth: 0))
        }
        return GeneratedScript(seed: seed, items: items, actions: main)
    }

    private mutating func addItem(_ index: Int) {
        switch below(10) {
        case 0...2:
            // No two of one order: Foundation performs those in the order of their addresses.
            items.append(.init(name: "s\(index)", kind: .source0(order: (index * 5 + 3) % 11)))
        case 3...4:
            items.append(.init(name: "p\(index)", kind: .port))
        case 5...6:
            if isTimed, repeating < 2, chance(30) {
                let first: Date =
                    repeating == 0 ? (chance(50) ? .past : .slot(Self.cycle)) : .slot(1 + Self.cycle * below(2))
                items.append(.init(name: "t\(index)", kind: .timer(first, every: Self.cycle * GeneratedScript.slot)))
                repeating += 1
            } else if isTimed, chance(15), let slot = dates.popLast() {
                for name in ["twin\(index)", "twin\(index)'"] {
                    items.append(.init(name: name, kind: .twin(.slot(slot))))
                }
            } else {
                items.append(.init(name: "t\(index)", kind: .timer(date(), every: chance(20) ? 60_000 : 0)))
            }
        default:
            let activities: ThreadRunLoop.Activity =
                chance(15)
                ? .all
                : ThreadRunLoop.Activity(rawValue: [1, 2, 4, 32, 64, 128].randomElement(using: &random) ?? 1)
                    .union(chance(30) ? .beforeTimers : [])
            items.append(
                .init(name: "o\(index)", kind: .observer(activities, repeats: chance(60), order: (index * 3) % 7)))
        }
    }

    private mutating func date() -> Date {
        if isTimed, chance(60), let slot = dates.popLast() { return .slot(slot) }
        return chance(60) ? .past : .far
    }

    private mutating func mode() -> Int { below(modes) }
    private mutating func anyMode() -> Int { chance(20) ? GeneratedScript.common : mode() }
    private mutating func item() -> Int { below(items.count) }

    private mutating func run(depth: Int) -> Action {
        let limit = isTimed && chance(depth == 0 ? 60 : 30) ? limits.popLast() : nil
        return .run(mode: chance(60) ? 0 : mode(), until: limit, returning: chance(30))
    }

    private mutating func actions(upTo count: Int, depth: Int) -> [Action] {
        (0..<below(count + 1)).compactMap { _ in
            budget -= 1
            return budget < 0 ? nil : action(depth: depth)
        }
    }

    private mutating func action(depth: Int) -> Action {
        switch below(depth < 3 ? 100 : 78) {
        case 0...11: return .add(item(), mode: anyMode())
        case 12...19: return .remove(item(), mode: anyMode())
        case 20...24: return .invalidate(item())
        case 25...40:
            return items.indices.filter(isSource0).randomElement(using: &random).map { .signal($0) } ?? .wakeUp
        case 41...48: return items.indices.filter(isPort).randomElement(using: &random).map { .raise($0) } ?? .stop
        case 49...54:
            guard let timer = items.indices.filter(isPlainTimer).randomElement(using: &random) else { return .askModes }
            return .redate(timer, date())
        case 55...61: return .stop
        case 62...67: return .wakeUp
        case 68...71: return .ask(item(), mode: anyMode())
        case 72: return .askModes
        case 73...74: return .joinCommon(mode: mode())
        case 75...77: return isTimed ? .spin(1 + below(3)) : .wakeUp
        case 78...85:
            blocks += 1
            let name = "b\(blocks)"
            let modes = chance(70) ? [chance(20) ? GeneratedScript.common : mode()] : [mode(), anyMode()]
            return .block(name, modes: modes, actions(upTo: 2, depth: depth + 1))
        case 86...91: return run(depth: depth)
        case 92...94: return .elsewhere([simpleAction()])
        case 95...97:
            guard isTimed, let slot = helpers.popLast() else { return .elsewhere([simpleAction(), simpleAction()]) }
            return .later(slot, laterActions())
        default:
            guard onMain else { return .wakeUp }
            blocks += 1
            let name = "q\(blocks)"
            return .mainQueue(name, actions(upTo: 2, depth: depth + 1))
        }
    }

    /// What any thread may do.
    private mutating func simpleAction() -> Action {
        switch below(10) {
        case 0...1: return .add(item(), mode: anyMode())
        case 2: return .remove(item(), mode: anyMode())
        case 3: return .invalidate(item())
        case 4...5: return items.indices.filter(isSource0).randomElement(using: &random).map { .signal($0) } ?? .wakeUp
        case 6: return items.indices.filter(isPort).randomElement(using: &random).map { .raise($0) } ?? .stop
        case 7: return .stop
        case 8:
            blocks += 1
            return .block("b\(blocks)", modes: [mode()], [])
        default: return .wakeUp
        }
    }

    /// Only the last wakes the loop, which then finds the others done.
    private mutating func laterActions() -> [Action] {
        var actions: [Action] = []
        if let source = items.indices.filter(isSource0).randomElement(using: &random), chance(50) {
            actions.append(.signal(source))
        }
        if let observer = items.indices.filter(isObserver).randomElement(using: &random), chance(30) {
            actions.append(chance(50) ? .add(observer, mode: mode()) : .remove(observer, mode: mode()))
        }
        if let timer = items.indices.filter(isPlainTimer).randomElement(using: &random), chance(30) {
            actions.append(chance(50) ? .invalidate(timer) : .remove(timer, mode: mode()))
        }
        switch below(6) {
        case 0: break
        case 1: actions.append(.wakeUp)
        case 2: actions.append(.stop)
        case 3: actions.append(items.indices.filter(isPort).randomElement(using: &random).map { .raise($0) } ?? .wakeUp)
        case 4:
            let timers = items.indices.filter(isPlainTimer)
            actions.append(timers.randomElement(using: &random).map { .redate($0, .past) } ?? .wakeUp)
        default:
            blocks += 1
            actions.append(.block("b\(blocks)", modes: [mode()], []))
        }
        return actions
    }

    private func isSource0(_ index: Int) -> Bool { if case .source0 = items[index].kind { true } else { false } }
    private func isPort(_ index: Int) -> Bool { if case .port = items[index].kind { true } else { false } }
    private func isObserver(_ index: Int) -> Bool { if case .observer = items[index].kind { true } else { false } }

    /// One whose date may be moved; that of one that repeats within the script keeps to its own slots.
    private func isPlainTimer(_ index: Int) -> Bool {
        if case .timer(_, let every) = items[index].kind { every == 0 || every > 1000 } else { false }
    }
}
