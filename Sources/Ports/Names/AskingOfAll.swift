extension PortNameServer {
    /// Asks the owners of all names, at the same time.
    /// - Parameter ask: Asks one of them, and says whether it was silent. After that, told so, it does not wait again for
    ///   the same owner.
    package nonisolated(nonsending) func askOwners<Answer: Sendable>(
        of registrations: [Registration],
        _ ask: @escaping @Sendable (_ registration: Registration, _ isSilent: Bool) async -> (Answer, isSilent: Bool)
    ) async -> [Answer] {
        await withTaskGroup(of: [Answer].self) { group in
            for ofOwner in Dictionary(grouping: registrations, by: \.port.id.incarnation).values {
                group.addTask { await Self.askOwner(of: ofOwner, ask) }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
    }

    /// Few questions at a time: each takes connections of both sides, and an owner answers a bounded number.
    private static func askOwner<Answer: Sendable>(
        of registrations: [Registration],
        _ ask: @escaping @Sendable (Registration, Bool) async -> (Answer, isSilent: Bool)
    ) async -> [Answer] {
        await withTaskGroup(of: (Answer, isSilent: Bool).self) { group in
            let most = 32
            for registration in registrations.prefix(most) { group.addTask { await ask(registration, false) } }
            var (waiting, answers, isSilent) = (registrations.dropFirst(most), [Answer](), false)
            for await answer in group {
                answers.append(answer.0)
                isSilent = isSilent || answer.isSilent
                guard let next = waiting.popFirst() else { continue }
                group.addTask { [isSilent] in await ask(next, isSilent) }
            }
            return answers
        }
    }
}
