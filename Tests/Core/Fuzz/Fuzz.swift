import FuzzTargets
import Glibc

// What libFuzzer calls with each input. `FUZZ_TARGET` says what is fuzzed. Run by `make fuzz`.

private let target: FuzzTarget = {
    let name = getenv("FUZZ_TARGET").map { String(cString: $0) } ?? ""
    guard let target = FuzzTarget(rawValue: name) else {
        fatalError("FUZZ_TARGET is none of \(FuzzTarget.allCases.map(\.rawValue))")
    }
    return target
}()

/// Writes the good input to begin with into the folder that `FUZZ_SEEDS` names.
private let seeds: Void = {
    guard let folder = getenv("FUZZ_SEEDS").map({ String(cString: $0) }) else { return }
    for (number, seed) in target.seeds.enumerated() {
        let file = creat("\(folder)/seed-\(number)", 0o644)
        _ = write(file, seed, seed.count)
        close(file)
    }
}()

/// What libFuzzer calls with each input that it makes up.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOne(_ bytes: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    _ = seeds
    if let fault = target.fault(in: UnsafeRawBufferPointer(start: bytes, count: count)) { fatalError(fault) }
    return 0
}
