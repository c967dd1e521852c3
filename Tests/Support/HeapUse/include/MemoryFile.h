// What Swift's Glibc module map leaves out of sys/mman.h.
#pragma once

#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

// Makes a memory file without seals, to which seals can be added or not. -1 with errno.
static inline int make_memory_file(bool may_be_sealed) {
    return (int)syscall(SYS_memfd_create, "test", may_be_sealed ? 2 : 0);
}
