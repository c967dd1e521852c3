#pragma once
#include <zmq.h>
#include <sys/syscall.h>
#include <unistd.h>

// Missing in Swift's C library module.
static inline int czmq_thread_id(void) { return (int)syscall(SYS_gettid); }
