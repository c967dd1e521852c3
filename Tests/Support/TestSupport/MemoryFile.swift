import HeapUse

/// Makes a memory file without seals, to which seals can be added or not: what a peer may hand over.
package func makeMemoryFile(mayBeSealed: Bool) -> Int32 { make_memory_file(mayBeSealed) }
