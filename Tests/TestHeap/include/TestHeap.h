// What Swift's Glibc module map leaves out.
#pragma once

#include <stddef.h>

// How many bytes of heap are in use, by all threads.
size_t test_heap_in_use(void);
