import HeapUse

/// Lets each call of `memfd_create` fail with an error, in the calling thread and all that it starts, for good.
/// - Returns: Whether it does. A kernel may have no filters.
package func forbidMemory(_ error: Int32) -> Bool { forbid_memfd_create(error) }
