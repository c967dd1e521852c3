// What the raw side needs from C: libzmq as it is, and epoll, which Swift's Glibc module lacks.
#pragma once

#include <zmq.h>

// An epoll set that holds one descriptor, level-triggered; -1 with errno.
int cb_watch(int descriptor);
// Sleeps until a set's descriptor is readable; 0, or -1 with errno.
int cb_wait(int set);
