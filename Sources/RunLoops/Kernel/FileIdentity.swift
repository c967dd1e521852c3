import Glibc

/// What the kernel tells files apart by, whatever their paths and descriptors are.
package struct FileIdentity: Equatable {
    private let device: dev_t
    private let number: ino_t

    package init(_ status: stat) { (device, number) = (status.st_dev, status.st_ino) }

    package init?(of descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }
}
