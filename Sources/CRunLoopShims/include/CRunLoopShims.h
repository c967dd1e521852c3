// What Swift's Glibc module map leaves out, and the few things that only C can say.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <time.h>

// One event of an epoll set, without the packed union that Swift cannot import.
typedef struct {
    uint32_t events;
    uint64_t token;
} crl_event;

int crl_epoll_control(int set, int operation, int descriptor, uint32_t events, uint64_t token);

// Waits for one event. `nanoseconds` < 0 waits for ever. Returns 1, 0 on timeout, or -1 with errno.
int crl_epoll_wait_one(int set, crl_event *event, int64_t nanoseconds);

// Arms a timer descriptor for an absolute CLOCK_MONOTONIC time; 0 disarms it.
int crl_timer_arm(int descriptor, uint64_t nanoseconds);

// CLOCK_MONOTONIC, in nanoseconds.
static inline uint64_t crl_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// The same as of the clock's last tick, some milliseconds ago, for a fifth of the price.
static inline uint64_t crl_coarse_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// That tick, in nanoseconds.
static inline uint64_t crl_coarse_tick(void) {
    struct timespec tick;
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    return (uint64_t)tick.tv_sec * 1000000000u + (uint64_t)tick.tv_nsec;
}

// A lock in a word: 0 is free, 1 taken, 2 taken and waited for. Whoever comes first gets it; waiters sleep in the kernel.
void crl_lock_slowly(uint32_t *word);
void crl_wake_waiter(uint32_t *word);
static inline void crl_lock(uint32_t *word) {
    uint32_t free_word = 0;
    if (!__atomic_compare_exchange_n(word, &free_word, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        crl_lock_slowly(word);
}
static inline void crl_unlock(uint32_t *word) {
    if (__atomic_exchange_n(word, 0, __ATOMIC_RELEASE) == 2) crl_wake_waiter(word);
}

// The value that a thread keeps under the library's one thread-specific key. `destructor`, the same one for all
// threads, runs at the thread's exit; null leaves it as it is.
void *crl_thread_value(void);
bool crl_thread_value_set(void *value, void (*destructor)(void *));

// How many callouts of ports the thread is inside of.
int32_t *crl_callout_depth(void);

int crl_thread_id(void);
// Of a thread of this process, by its id.
bool crl_thread_has_ended(int thread);
int crl_process_id(void);
// Names the calling thread with the first 15 bytes of `name`.
void crl_thread_set_name(const char *name);
// Close on exec.
int crl_pidfd_open(int pid);
bool crl_pidfd_is_child(int descriptor);
// Collects the process if it has ended: 1, and its exit status or the negated signal that ended it; 0 while it runs;
// -1 when somebody else has collected it.
int crl_pidfd_collect(int descriptor, int *status);

// libdispatch's main queue, as its run-loop integration sees it.
int crl_main_queue_descriptor(void);
void crl_main_queue_drain(void);

// Adds `descriptor`, an eventfd, to those told of `signal`; installs the handler with the first one. -1 with errno:
// EBUSY when as many are told already as can be.
int crl_signal_watch(int signal, int descriptor);
// Takes it out again; the last one restores what was in force before.
void crl_signal_unwatch(int signal, int descriptor);

// Has every later fork note itself in the child, and close there what crl_unforked_… has opened.
void crl_prepare_fork(void);
extern bool crl_forked;
static inline bool crl_is_forked(void) { return __atomic_load_n(&crl_forked, __ATOMIC_RELAXED); }
// Descriptors that no forked child keeps, not even for a moment: each would make a dead parent seem alive. All are closed
// on exec; sockets are local ones that do not block. -1 with errno.
int crl_unforked_socket(int type);
int crl_unforked_accept(int listener);
int crl_unforked_duplicate(int of);
int crl_unforked_open(const char *path, int flags);
// Closes one of them; not in a forked child, where it is closed already.
void crl_unforked_close(int descriptor);

// Waits until one of two descriptors (or the one that is not -1) is readable. `nanoseconds` < 0 waits for ever.
// Returns how many are, 0 on timeout, or -1 with errno.
int crl_poll(int first, int second, int64_t nanoseconds);

// Whether the other side has closed its end, whatever there is left to read.
bool crl_has_hung_up(int descriptor);
// The kernel's word on who is at the other end of a local socket.
bool crl_peer_credentials(int descriptor, int *pid, unsigned *uid);

// Starts a program: signals as by default, no descriptor but the standard three. 0, or an errno.
int crl_spawn(int *pid, const char *path, char *const arguments[], char *const environment[]);
int crl_pidfd_signal(int descriptor, int signal);
