#pragma once
#include <zmq.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

// Missing in Swift's C library module.
static inline bool czmq_has_thread(int thread) { return syscall(SYS_tgkill, getpid(), thread, 0) == 0; }
static inline int czmq_thread_id(void) { return (int)syscall(SYS_gettid); }
