// Files for macOS have these names by `import XPC` alone.
@_exported import Dispatch
@_exported import Glibc
