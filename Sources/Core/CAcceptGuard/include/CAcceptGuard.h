// Refuses connections at listening sockets before libzmq accepts them.
//
// libzmq aborts the process when `accept` finds no descriptor left. A watching thread could be too late, because libzmq
// accepts a thousand connections while that thread waits for a processor. So this library has its own `accept4`, which
// calls the C library's for unguarded descriptors. The static linker prefers this `accept4` for a libzmq in the same
// object. The reference of a libzmq in another object is relocated, because after `dlopen` the dynamic linker would
// find the C library's.
#pragma once

#include <stdbool.h>

enum cag_reason { cag_another_user, cag_one_too_many, cag_no_descriptor_left };

// Redirects libzmq's calls, once. Connections that would leave fewer than `reserve` descriptors are refused. The
// accepting thread calls `refused` for each refused connection.
void cag_begin(int reserve, void (*refused)(int pid, unsigned uid, enum cag_reason reason));

// Guards a listening socket: only the process's own user may connect, with at most `most` connections at a time. The
// socket is identified by its inode, too, so its end need not be reported. False when no memory is left.
bool cag_guard(int listener, int most);

// Whether libzmq's calls are redirected.
bool cag_is_in_force(void);
