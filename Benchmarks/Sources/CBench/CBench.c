#define _GNU_SOURCE
#include "CBench.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>

int cb_event(void) { return eventfd(0, EFD_CLOEXEC); }

int cb_watch(int descriptor, bool edges) {
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | (edges ? EPOLLET : 0)};
    if (set < 0 || epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event) != 0) return -1;
    return set;
}

int cb_wait(int set, int seconds) {
    struct epoll_event event;
    int count;
    do count = epoll_wait(set, &event, 1, seconds < 0 ? -1 : seconds * 1000);
    while (count < 0 && errno == EINTR);
    if (count == 0) errno = ETIMEDOUT;
    return count == 1 ? 0 : -1;
}

int cb_set(void) { return epoll_create1(EPOLL_CLOEXEC); }

int cb_set_add(int set, int descriptor, unsigned number) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    return epoll_ctl(set, EPOLL_CTL_ADD, descriptor, &event);
}

int cb_set_wait(int set, unsigned *numbers, int size) {
    struct epoll_event events[256];
    int count = epoll_wait(set, events, size < 256 ? size : 256, -1);
    for (int index = 0; index < count; index++) numbers[index] = events[index].data.u32;
    return count;
}

static cpu_set_t cpus;

// Before anything is bound, which new threads would inherit.
__attribute__((constructor)) static void find_cpus(void) { sched_getaffinity(0, sizeof cpus, &cpus); }

void cb_pin(int end) {
    int count = CPU_COUNT(&cpus), wanted = end % (count > 0 ? count : 1);
    cpu_set_t chosen = cpus;
    if (end == 0 || end == 1) {
        CPU_ZERO(&chosen);
        for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &cpus) && seen++ == wanted) CPU_SET(cpu, &chosen);
    }
    sched_setaffinity(0, sizeof chosen, &chosen);
}

void cb_pin_beside(int end) {
    int count = CPU_COUNT(&cpus), taken = end % (count > 0 ? count : 1);
    cpu_set_t chosen = cpus;
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &cpus) && seen++ == taken) CPU_CLR(cpu, &chosen);
    sched_setaffinity(0, sizeof chosen, count > 1 ? &chosen : &cpus);
}

void cb_unpin_new(void) {
    static _Thread_local bool is_known;
    if (is_known) return;
    is_known = true;
    cb_pin(-1);
}

double cb_cpu_seconds(pid_t process) {
    clockid_t clock;
    struct timespec time = {0};
    if (clock_getcpuclockid(process, &clock) == 0) clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

size_t cb_heap(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

void cb_wait_exactly(void) { prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0); }

static int packet_socket(const char *path, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    strncpy(address->sun_path, path, sizeof address->sun_path - 1);
    int size = 4 << 20, made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    setsockopt(made, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    return made;
}

int cb_packet_listen(const char *path) {
    struct sockaddr_un address;
    int made = packet_socket(path, &address);
    if (bind(made, (struct sockaddr *)&address, sizeof address) != 0 || listen(made, 1) != 0) return -1;
    return made;
}

int cb_packet_accept(int listener) {
    int size = 4 << 20, made = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    setsockopt(made, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    return made;
}

int cb_packet_connect(const char *path) {
    struct sockaddr_un address;
    int made = packet_socket(path, &address);
    return connect(made, (struct sockaddr *)&address, sizeof address) == 0 ? made : -1;
}

size_t cb_packet_limit(int socket) {
    int size = 0;
    socklen_t length = sizeof size;
    getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, &length);
    return size > 32 ? size - 32 : 0;
}

int cb_packet_send(int socket, const void *head, size_t head_size, const void *body, size_t body_size, bool waits) {
    struct iovec parts[2] = {{(void *)head, head_size}, {(void *)body, body_size}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = body_size > 0 ? 2 : 1};
    ssize_t sent;
    do sent = sendmsg(socket, &message, MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT));
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

ssize_t cb_packet_receive(int socket, void *buffer, size_t size) {
    ssize_t received;
    do received = recv(socket, buffer, size, MSG_DONTWAIT);
    while (received < 0 && errno == EINTR);
    return received;
}
