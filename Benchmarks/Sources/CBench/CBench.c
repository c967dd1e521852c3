#include "CBench.h"

#include <errno.h>
#include <sys/epoll.h>

int cb_watch(int descriptor) {
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) != 0) return -1;
    return set;
}

int cb_wait(int set) {
    struct epoll_event event;
    int count;
    do count = epoll_wait(set, &event, 1, -1);
    while (count < 0 && errno == EINTR);
    return count == 1 ? 0 : -1;
}
