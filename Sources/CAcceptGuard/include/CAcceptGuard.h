// Keeps the door of listening sockets that libzmq accepts at.
//
// libzmq ends the process, by an assertion, when it accepts a connection and no descriptor is left. Whoever watched its
// sockets from another thread could be too late: it takes a thousand connections in the time that a thread may wait for
// a processor. So there is an `accept4` of our own, which for descriptors that are not named here is the C library's. The
// static linker prefers it for a libzmq in the same object. A libzmq in another has its reference relocated anew, since
// in a program that has loaded us with `dlopen` the dynamic linker would find the C library's.
#pragma once

#include <stdbool.h>

enum cag_reason { cag_another_user, cag_one_too_many, cag_no_descriptor_left };

// Takes libzmq's calls, once. Has connections refused that would leave fewer than `reserve` descriptors free, and `refused` called with each one
// that is refused, on the thread that accepts.
void cag_begin(int reserve, void (*refused)(int pid, unsigned uid, enum cag_reason reason));

// Keeps the door of a listening socket: for the process's own user, and for `most` connections at a time. It is known by
// its inode, too, so nobody need tell when it is closed. False when there is no memory for it.
bool cag_guard(int listener, int most);

// Whether libzmq's calls come here.
bool cag_is_in_force(void);
