// What Swift's Glibc module map leaves out of malloc.h.
#pragma once
#include <malloc.h>
#include "MemoryFile.h"
#include "SystemCallFilter.h"

// How many bytes of heap the process has in use, in all of its arenas.
static inline size_t heap_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
