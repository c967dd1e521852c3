@testable import Ports

// The parts of a program that look at names.

extension Program {
    /// Follows the names that come and go.
    func watchNames() {
        while goesOn {
            guard let names, let watch = attempt({ try PortNameWatch(names) }) else {
                pause(100)
                continue
            }
            var known: [String: PortID] = [:]
            let life = below(3) == 0 ? below(2_000) : 100_000
            let end = machine.now + UInt64(life) * 1_000_000
            while goesOn, machine.now < end {
                // The directory may be out of reach for a while.
                guard let change = attempt({ try watch.next(before: after(50)) }) else { break }
                if let change { check(change, &known) }
            }
        }
    }

    /// A name comes before it goes.
    private func check(_ change: PortNameWatch.Change, _ known: inout [String: PortID]) {
        switch change {
        case .came(let registration):
            if let former = known[registration.name] {
                machine.fail("a watch says that \(registration.name) came, after it came for port \(former)")
            }
            known[registration.name] = registration.port.id
        case .went(let registration):
            if known.removeValue(forKey: registration.name) != registration.port.id {
                machine.fail("a watch says that \(registration.name) went, which had not come")
            }
            promises.names.saysGone(registration.name, registration.port.id)
        }
    }

    private func followByTask(_ names: PortNameServer) {
        let (isDone, count) = (Kept(false), 1 + below(20))
        let task = Task {
            defer { isDone.value = true }
            guard let watch = try? PortNameWatch(names) else { return }
            var known: [String: PortID] = [:]
            do {
                for try await change in watch.changes {
                    check(change, &known)
                    if known.count > count { break }
                }
            } catch {}
        }
        _ = machine.wait(until: machine.now + UInt64(below(2_000)) * 1_000_000) { [self] in isDone.value || !goesOn }
        task.cancel()
        _ = machine.wait(until: nil) { isDone.value }
    }

    /// Lists names, waits for their ends, and sweeps.
    func listNames() {
        while goesOn {
            guard let names else { return }
            switch below(7) {
            case 0: _ = attempt { try names.registrations() }
            case 1: _ = attempt { try names.registration(forName: scenario.boxName(0)) }
            case 2:
                _ = attempt { try names.waitForEnd(ofName: scenario.serverName(0), before: after(below(2_000))) }
            case 3: _ = attempt { try names.names() }
            case 4:
                wait { [self] in
                    try? await names.waitForEnd(ofName: scenario.boxName(0), before: after(below(2_000)))
                }
            case 5: followByTask(names)
            default: _ = attempt { try names.sweep() }
            }
            pause(below(500))
        }
    }
}
