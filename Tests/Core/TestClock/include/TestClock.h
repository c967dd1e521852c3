#pragma once

#include <stdint.h>

// Sets this process's wall clock so many seconds before or after the machine's. A program that is linked with this has
// all its code, that of shared libraries too, see it: the functions of the C library are replaced by ours.
void test_clock_set(int64_t seconds);
