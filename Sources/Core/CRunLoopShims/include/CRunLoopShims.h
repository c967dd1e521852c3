// Functions that Swift's Glibc module map lacks, and a few that only C can express.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <sys/types.h>
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

// CLOCK_MONOTONIC at its last tick, some milliseconds ago, in a fifth of the time.
static inline uint64_t crl_coarse_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// The processor's counter. A read takes less than half of the clock's time.
static inline uint64_t crl_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

// Whether all processors' counters go at one rate and agree: the kernel's clock is made of them then.
bool crl_has_steady_ticks(void);

// The length of a tick, in nanoseconds.
static inline uint64_t crl_coarse_tick(void) {
    struct timespec tick;
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    return (uint64_t)tick.tv_sec * 1000000000u + (uint64_t)tick.tv_nsec;
}

// Tells the processor that the thread polls.
static inline void crl_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
// Whether the process's threads may run on more than one processor; true also when that cannot be known.
bool crl_has_processors(void);

// A lock in a word: 0 is free, 1 taken, 2 taken with waiters. Waiters sleep in the kernel.
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

// A latch in a word: 0 is closed, 1 open. Waits until a CLOCK_MONOTONIC time, and returns whether the latch is open.
void crl_latch_open(uint32_t *word);
bool crl_latch_wait(uint32_t *word, uint64_t nanoseconds);

// The thread's value under the library's one thread-specific key. `destructor`, the same for all threads, runs at the
// thread's exit; null does not change the destructor.
void *crl_thread_value(void);
bool crl_thread_value_set(void *value, void (*destructor)(void *));

// The depth of port callouts on the thread.
int32_t *crl_callout_depth(void);

int crl_thread_id(void);
// Whether a thread of this process has ended, by its id.
bool crl_thread_has_ended(int thread);
int crl_process_id(void);
// Names the calling thread with the first 15 bytes of `name`.
void crl_thread_set_name(const char *name);
// Close on exec.
int crl_pidfd_open(int pid);
bool crl_pidfd_is_child(int descriptor);
// Collects an ended process: 1, and the exit status or the negated signal; 0 while the process runs; -1 when somebody
// else has collected the process.
int crl_pidfd_collect(int descriptor, int *status);

// libdispatch's main queue, as its run-loop integration sees it.
int crl_main_queue_descriptor(void);
void crl_main_queue_drain(void);

// Raises `descriptor`, an eventfd, at each `signal`; the first call installs the handler. -1 with errno: EBUSY when the
// signal has no room for another descriptor.
int crl_signal_watch(int signal, int descriptor);
// Removes the descriptor; the last removal restores the former action.
void crl_signal_unwatch(int signal, int descriptor);
// Unblock the signal on the calling thread; unblock these signals there, and block all others.
void crl_signal_unblock(int signal);
void crl_signal_unblock_only(const int signals[], int count);

// Has every later fork set `crl_forked` in the child, and close there the descriptors of crl_unforked_….
void crl_prepare_fork(void);
extern bool crl_forked;
static inline bool crl_is_forked(void) { return __atomic_load_n(&crl_forked, __ATOMIC_RELAXED); }
// Descriptors that a forked child closes at once: in the child they would make a dead parent seem alive. All are
// close-on-exec; sockets are local and non-blocking. -1 with errno.
int crl_unforked_socket(int type);
int crl_unforked_accept(int listener);
int crl_unforked_duplicate(int of);
int crl_unforked_open(const char *path, int flags);
// Closes such a descriptor; does nothing in a forked child, where the descriptor is closed already.
void crl_unforked_close(int descriptor);

// Waits until one of two descriptors (or the one that is not -1) is readable. `nanoseconds` < 0 waits for ever.
// Returns the count of readable descriptors, 0 on timeout, or -1 with errno.
int crl_poll(int first, int second, int64_t nanoseconds);

// Makes a memory file that cannot change its size, and that can be frozen later or not. -1 with errno.
int crl_memory_make(uint64_t size, bool may_freeze);
// Lets nobody write the file any more, also not in this mapping of it, which must be the only one. False with errno.
bool crl_memory_freeze(int descriptor, void *memory, uint64_t size);
// The same for a file that nobody has mapped.
bool crl_memory_seal(int descriptor);
// The size of such a file, which a peer may have made, if all of its pages have memory, and it is frozen if it must be; 0
// with errno for anything else.
uint64_t crl_memory_whole_size(int descriptor, bool is_frozen);
// Maps a frozen file for reading: NULL with errno unless it has this size.
const void *crl_memory_map_frozen(int descriptor, uint64_t size);
// The size of such a file, which a peer may have made; 0 with errno for anything else.
uint64_t crl_memory_size(int descriptor);
// Maps such a file: NULL with errno unless it has this size, and its first page gets memory. A forked child has no mapping.
void *crl_memory_map(int descriptor, uint64_t size);
// The same for its first bytes, whatever its size.
void *crl_memory_map_begin(int descriptor, uint64_t size);
// Writes the bytes of such a file. False with errno without memory.
bool crl_memory_write(int descriptor, const void *bytes, uint64_t size);
// Copies the bytes of such a file. False unless it has them all.
bool crl_memory_read(int descriptor, void *bytes, uint64_t size);
// Reads bytes of such a file from an offset on.
bool crl_memory_read_at(int descriptor, void *bytes, uint64_t size, uint64_t offset);
void crl_memory_unmap(void *memory, uint64_t size);
// Gives pages memory now, so that a write gets no signal for want of memory. 0, or -1 with errno.
int crl_memory_populate(void *pages, uint64_t size);
// Gives the memory of pages back. They read as zeros.
int crl_memory_release(void *pages, uint64_t size);
// The limit of the process's address space in bytes; UINT64_MAX for none.
uint64_t crl_memory_limit(void);

// A pipe whose reading end, the first, does not block. Close on exec. -1 with errno.
int crl_pipe(int ends[2]);
// A connected pair of stream sockets. -1 with errno.
int crl_socket_pair(int ends[2]);
// Sends a byte without waiting. 0, or an errno.
int crl_ring(int socket);
// Drops the bytes that wait at a socket. False at the end of the connection.
bool crl_hear(int socket);
// Takes the descriptors of an edge-triggered epoll set that have become ready. Returns their number, at most 16.
int crl_epoll_take(int set, uint64_t tokens[16]);

// The most descriptors of a packet.
enum { CRL_MOST_DESCRIPTORS = 64 };
// Sends a packet with descriptors, without waiting. -1 with errno.
int crl_send_packet(int socket, const void *bytes, size_t size, const int *descriptors, int count);
// Receives a packet without waiting, with a number of descriptors at most, which are closed on exec. Returns its size, or
// -1 with errno.
ssize_t crl_receive_packet(int socket, void *bytes, size_t size, int *descriptors, int most, int *count);
// The byte at a stream socket that memory comes with.
enum { CRL_MEMORY = 1 };
// Drops the bytes that wait at a socket, up to memory. False without memory; -1 in place of memory that has got no number.
bool crl_hear_memory(int socket, int *memory);

// Identifies the mount that a file is on, the descriptor's own when `path` is empty. 0 when there is no such file.
uint64_t crl_mount(int folder, const char *path);

// Whether the peer has closed its end, even if bytes are left to read.
bool crl_has_hung_up(int descriptor);
// The kernel's credentials of a local socket's peer.
bool crl_peer_credentials(int descriptor, int *pid, unsigned *uid, unsigned *gid);

// Starting a program.
enum { CRL_GROUP_INHERITED, CRL_GROUP_OWN, CRL_GROUP_SESSION };

typedef struct {
    int resource;
    uint64_t most;
    // For errors.
    const char *name;
} crl_limit;

typedef struct {
    const char *path;
    char *const *arguments;
    char *const *environment;
    // Where the program starts; null for the caller's folder.
    const char *folder;
    // The standard streams, each above 2; -1 stands for the caller's.
    int standard[3];
    int group;
    // Whether the kernel ends the program when this process ends.
    bool ends_with_launcher;
    const crl_limit *limits;
    int limit_count;
    int niceness;
    bool may_gain_privileges;
    // The file cgroup.procs that the program's number is written to, or -1.
    int cgroup;
    // A descriptor above 3, which the program has as number 3; 0 for none.
    int kept;
} crl_program;

// Starts a program with default signals, the three standard descriptors and `kept`. 0, or an errno. `failed` is what could
// not be done, or null.
int crl_spawn(int *pid, const crl_program *program, const char **failed);
int crl_pidfd_signal(int descriptor, int signal);

// Writes the number of a signal that crashes this process to `descriptor`, an eventfd, before the handler runs that is there
// for that signal now. Signals without a handler end the process at once, and stay as they are.
void crl_report_crashes(int descriptor);
// Makes C's standard output, which Swift's `print` uses, write each line when it is complete.
void crl_buffer_output_by_lines(void);
