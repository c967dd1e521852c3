@testable import Ports

// The part of a program that wants the names of ports just when these change hands.

extension Program {
    func raceForNames() {
        while goesOn {
            // Not at each step, because a look takes long.
            var (nextLook, isOnTheWay) = (machine.now, false)
            _ = machine.wait(until: machine.now + 500_000_000) { [self] in
                if !isOnTheWay, machine.now >= nextLook {
                    nextLook = machine.now + 50_000
                    isOnTheWay = promises.names.isAnyOnTheWay
                }
                return !goesOn || isOnTheWay
            }
            let wanted = promises.names.onTheWay
            if isOnTheWay, goesOn, !wanted.isEmpty { race(for: wanted[below(wanted.count)]) }
            pause(below(300))
        }
    }

    private func race(for name: String) {
        guard let names, let port = attempt({ try makePort(names) }) else { return }
        inboxes.append(port)
        for _ in 0...below(10) where goesOn {
            if below(2) == 0 {
                _ = attempt { try find(name) }
            } else if register(port, name, names) {
                break
            }
            pause(below(3))
        }
        end(port)
    }
}
