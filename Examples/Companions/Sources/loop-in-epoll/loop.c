#include "driven.h"
#include "loop.h"

#include <sys/epoll.h>
#include <unistd.h>

// An event loop in C that drives the thread's ThreadRunLoop until somebody stops it.
bool run_loop(void) {
    void *run = driven_begin();
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events = {.events = EPOLLIN};
    if (!run || set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, driven_descriptor(run), &events) != 0) return false;
    do {
        struct epoll_event ready[16];
        int count = epoll_wait(set, ready, 16, driven_prepare(run));
        for (int i = 0; i < count; i++) {
            // The program's own descriptors are served here.
        }
    } while (driven_dispatch(run));
    close(set);
    driven_end(run);
    return true;
}
