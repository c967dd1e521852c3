import Foundation
import FuzzTargets
import OwnThread
import Testing

/// What the fuzzer has found worth keeping, once more. See `make fuzz`.
@Suite(.ownThread) struct FuzzCorpusTests {
    @Test(arguments: FuzzTarget.allCases) func `what was found by fuzzing does no harm`(_ target: FuzzTarget) throws {
        let folder = URL(filePath: #filePath).appending(path: "../../Fuzz/Corpus/\(target)").standardizedFileURL
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        #expect(!files.isEmpty)
        for file in files {
            let bytes = [UInt8](try Data(contentsOf: file))
            #expect(bytes.withUnsafeBytes { target.fault(in: $0) } == nil, "\(file.lastPathComponent)")
        }
        for seed in target.seeds { #expect(seed.withUnsafeBytes { target.fault(in: $0) } == nil) }
    }
}
