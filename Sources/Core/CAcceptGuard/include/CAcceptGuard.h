// Refuses connections at listening sockets before libzmq accepts them.
//
// libzmq aborts the process when `accept` finds no descriptor left. A watching thread could be too late, because libzmq
// accepts a thousand connections while that thread waits for a processor. So this library has its own `accept4`, which
// calls the C library's for all other sockets. The linkers prefer it to the C library's, because that comes last. They do not
// in a program that loads this library while it runs: its libzmq was bound to the C library before. There a connection may
// end the process when no descriptor is left.
#pragma once

#include <stdbool.h>

enum cag_reason { cag_another_user, cag_one_too_many, cag_no_descriptor_left };

// Called once. Connections that would leave fewer than `reserve` descriptors are refused. The accepting thread calls `refused`
// for each refused connection.
void cag_begin(int reserve, void (*refused)(int pid, unsigned uid, enum cag_reason reason));

// Guards a listening socket: only the process's own user may connect, with at most `most` connections at a time. The
// socket is identified by its inode, too, so its end need not be reported. False when no memory is left.
bool cag_guard(int listener, int most);

// Whether libzmq calls this library's `accept4`. Known after `cag_begin`.
bool cag_is_in_force(void);
