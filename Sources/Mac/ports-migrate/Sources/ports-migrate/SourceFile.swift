import Foundation

/// Why a file was left as it is.
struct FileProblem: Error {
    let text: String

    init(_ text: String) { self.text = text }

    /// The reason that the system gave for a failure, without the path, which is named before.
    init(_ error: any Error, _ attempt: String) {
        let code = (error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError
        let reason = code.map { String(cString: strerror(Int32($0.code))) } ?? error.localizedDescription
        text = "\(attempt): \(reason)"
    }
}

/// A file to migrate.
struct SourceFile {
    let path: String

    /// The file at a path; of a folder, the Swift files in it and its folders, but none that are hidden.
    static func all(at path: String) throws(FileProblem) -> [SourceFile] {
        var isFolder: ObjCBool = false
        guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
            throw FileProblem("there is no such file or folder")
        }
        guard isFolder.boolValue else { return [SourceFile(path: path)] }
        let names = FileManager.default.enumerator(atPath: path)?.compactMap { $0 as? String } ?? []
        let files = names.filter { name in
            name.hasSuffix(".swift") && !name.split(separator: "/").contains { $0.hasPrefix(".") }
        }
        guard !files.isEmpty else { throw FileProblem("the folder has no Swift files") }
        return files.sorted().map { SourceFile(path: path.hasSuffix("/") ? path + $0 : "\(path)/\($0)") }
    }

    func text() throws(FileProblem) -> String {
        let data: Data
        do { data = try Data(contentsOf: URL(fileURLWithPath: path)) } catch {
            throw FileProblem(error, "the file cannot be read")
        }
        guard let text = String(validating: data, as: UTF8.self) else {
            throw FileProblem("the file is not text in UTF-8; convert it, for example with iconv")
        }
        return text
    }

    /// Replaces the file at once, so that it is never half written. Its permissions stay.
    func write(_ text: String) throws(FileProblem) {
        let url = URL(fileURLWithPath: path).resolvingSymlinksInPath()
        do {
            let permissions = try FileManager.default.attributesOfItem(atPath: url.path)[.posixPermissions]
            guard FileManager.default.isWritableFile(atPath: url.path) else {
                throw CocoaError(
                    .fileWriteNoPermission, userInfo: [NSUnderlyingErrorKey: POSIXError(.EACCES) as NSError])
            }
            try Data(text.utf8).write(to: url, options: .atomic)
            if let permissions {
                try FileManager.default.setAttributes([.posixPermissions: permissions], ofItemAtPath: url.path)
            }
        } catch {
            throw FileProblem(error, "the file cannot be written")
        }
    }
}
