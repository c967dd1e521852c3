import Foundation
import Oracle
import OwnThread
import RunLoops
import TestSupport
import Testing

/// What NSRunLoop has beside CFRunLoop, played on Foundation's loop and on ours.
@Suite(.ownThread) struct InputTests {
    @Test(arguments: Scene.all)
    fileprivate func `both loops tell the same story`(_ scene: Scene) {
        let theirs = Self.play(scene) { (CFStage(), TheirInput.init) }
        let ours = Self.play(scene) { (OurStage(), OurInput.init) }
        #expect(!ours.isEmpty)
        #expect(ours == theirs)
    }

    private static func play(
        _ scene: Scene, on world: @escaping @Sendable () -> (any Stage, (Trace) -> any Input)
    ) -> [String] {
        // The stage is needed until the thread has ended.
        let (stage, trace) = onThread {
            let (stage, input) = world()
            scene.play(stage, input(stage.trace))
            return (stage, stage.trace.all)
        }
        return withExtendedLifetime(stage) { trace }
    }
}

/// The methods in question, on the calling thread's loop.
private protocol Input: Sendable {
    var trace: Trace { get }
    /// In seconds from now; nil as in nil, infinity for the distant future.
    func limit(_ mode: String) -> Double?
    func accept(_ mode: String, _ seconds: Double)
    func run(_ mode: String, _ seconds: Double) -> Bool
    func run(_ seconds: Double)
}

extension Input {
    /// Has the limit in the trace, in whole seconds.
    func tellLimit(_ mode: String = "default") {
        trace("limit \(limit(mode).map { $0.isFinite ? "\(Int($0.rounded()))" : "never" } ?? "nil")")
    }

    func tellAccept(_ seconds: Double, _ mode: String = "default") {
        trace("accept \(mode)")
        accept(mode, seconds)
        trace("accepted")
    }

    func tellRun(_ seconds: Double, _ mode: String = "default") {
        trace("run \(mode)")
        trace("\(run(mode, seconds))")
    }

    func tellRunUntil(_ seconds: Double) {
        trace("run until")
        run(seconds)
        trace("has run")
    }
}

private struct TheirInput: Input {
    let trace: Trace

    func limit(_ mode: String) -> Double? {
        guard let date = RunLoop.current.limitDate(forMode: Self.mode(mode)) else { return nil }
        return date == .distantFuture ? .infinity : date.timeIntervalSinceNow
    }

    func accept(_ mode: String, _ seconds: Double) {
        RunLoop.current.acceptInput(forMode: Self.mode(mode).rawValue, before: Date(timeIntervalSinceNow: seconds))
    }

    func run(_ mode: String, _ seconds: Double) -> Bool {
        RunLoop.current.run(mode: Self.mode(mode), before: Date(timeIntervalSinceNow: seconds))
    }

    func run(_ seconds: Double) {
        seconds.isFinite ? RunLoop.current.run(until: Date(timeIntervalSinceNow: seconds)) : RunLoop.current.run()
    }

    private static func mode(_ name: String) -> RunLoop.Mode {
        name == "default" ? .default : name == "common" ? .common : RunLoop.Mode(rawValue: name)
    }
}

private struct OurInput: Input {
    let trace: Trace

    func limit(_ mode: String) -> Double? {
        do {
            guard let date = try ThreadRunLoop.current.limitDate(forMode: .init(mode)) else { return nil }
            return date == .distantFuture ? .infinity : ContinuousClock.now.duration(to: date) / .seconds(1)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    func accept(_ mode: String, _ seconds: Double) {
        do {
            try ThreadRunLoop.current.acceptInput(forMode: .init(mode), before: .now + .seconds(seconds))
        } catch {
            preconditionFailure("\(error)")
        }
    }

    func run(_ mode: String, _ seconds: Double) -> Bool {
        do {
            return try ThreadRunLoop.current.run(mode: .init(mode), before: .now + .seconds(seconds))
        } catch {
            preconditionFailure("\(error)")
        }
    }

    func run(_ seconds: Double) {
        do {
            try ThreadRunLoop.current.run(until: seconds.isFinite ? .now + .seconds(seconds) : .distantFuture)
        } catch {
            preconditionFailure("\(error)")
        }
    }
}

private struct Scene: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let play: @Sendable (any Stage, any Input) -> Void

    init(_ name: String, _ play: @escaping @Sendable (any Stage, any Input) -> Void) {
        testDescription = name
        self.play = play
    }

    static let all: [Scene] = [
        Scene("a mode without items") { stage, input in
            stage.watch("default")
            input.tellLimit()
            input.tellLimit("nowhere")
            input.tellLimit("common")
            input.tellAccept(0.001)
            input.tellAccept(0.001, "nowhere")
        },
        Scene("a mode without a timer") { stage, input in
            stage.watch("default")
            stage.source0("a")
            input.tellLimit()
            stage.signal("a")
            input.tellLimit()
            stage.remove("a", from: "default")
            input.tellLimit()
        },
        Scene("a timer that is far") { stage, input in
            stage.timer("far", 1_000_000)
            stage.timer("near", 5_000, in: "other")
            input.tellLimit()
            input.tellLimit("other")
        },
        Scene("the last timer is due") { stage, input in
            stage.watch("default")
            stage.timer("past", -1000)
            input.tellLimit()
            input.tellLimit()
        },
        Scene("a due timer and a far one") { stage, input in
            stage.timer("past", -1000)
            stage.timer("far", 1_000_000)
            input.tellLimit()
        },
        Scene("a block is served, one of another mode is not") { stage, input in
            stage.watch("default")
            stage.block("b")
            stage.block("c", in: ["other"])
            input.tellLimit()
            input.tellLimit("other")
            input.tellLimit("other")
        },
        Scene("one source at a time") { stage, input in
            stage.watch("default")
            for (order, name) in ["a", "b"].enumerated() {
                stage.source0(name, order: order)
                stage.signal(name)
            }
            input.tellAccept(5)
            input.tellLimit()
            stage.port("p")
            stage.raise("p")
            input.tellAccept(5)
        },
        Scene("nothing comes in time") { stage, input in
            stage.watch("default")
            stage.source0("a")
            input.tellAccept(0.05)
            input.tellAccept(-1)
        },
        Scene("a timer does not end it, a stop does") { stage, input in
            stage.source0("a")
            stage.timer("t", 3)
            stage.timer("u", 10) { stage.stop() }
            input.tellAccept(20)
        },
        Scene("a run of a mode says whether there was anything") { stage, input in
            stage.watch("default")
            input.tellRun(0.001)
            input.tellRun(0.001, "nowhere")
            stage.source0("a")
            stage.signal("a")
            input.tellRun(5)
            input.tellRun(-1)
            input.tellRun(0.05)
            stage.source0("b", in: "other")
            stage.timer("t", 3, in: "other")
            stage.timer("u", 10, in: "other") { stage.stop() }
            input.tellRun(20, "other")
        },
        Scene("a run until a time goes on after sources, and ends with the last item") { stage, input in
            for (order, name) in ["a", "b"].enumerated() {
                stage.source0(name, order: order)
                stage.signal(name)
            }
            stage.block("c")
            stage.timer("end", 10) { for name in ["a", "b"] { stage.invalidate(name) } }
            input.tellRunUntil(20)
            input.tellRunUntil(20)
            stage.source0("d")
            input.tellRunUntil(0.005)
            input.tellRunUntil(-1)
        },
        Scene("a stop does not end a run until a time, or one without an end") { stage, input in
            for seconds in [20, Double.infinity] {
                stage.timer("stop", 3) { stage.stop() }
                stage.timer("end", 10)
                input.tellRunUntil(seconds)
            }
        },
        Scene("inside a run") { stage, input in
            stage.watch("default")
            stage.source0("a") {
                input.tellLimit()
                input.tellAccept(0.001, "other")
                input.tellLimit("other")
            }
            stage.source0("b", in: "other")
            stage.signal("a")
            stage.run()
        },
    ]
}
