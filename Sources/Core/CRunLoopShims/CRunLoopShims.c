#define _GNU_SOURCE
#include "CRunLoopShims.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int crl_epoll_control(int set, int operation, int descriptor, uint32_t events, uint64_t token) {
    struct epoll_event event = {.events = events, .data.u64 = token};
    return epoll_ctl(set, operation, descriptor, &event);
}

// Kernels before 5.11 and some sandboxes have no epoll_pwait2; remembered so that each wait costs one call.
static atomic_bool has_no_pwait2;

int crl_epoll_wait_one(int set, crl_event *event, int64_t nanoseconds) {
    struct epoll_event ready;
    int count;
    // Past the C library, whose functions make the thread cancellable for the time of the call: a tenth of a short one.
    if (nanoseconds <= 0) {
#ifdef SYS_epoll_wait
        count = (int)syscall(SYS_epoll_wait, set, &ready, 1, nanoseconds < 0 ? -1 : 0);
#else
        count = (int)syscall(SYS_epoll_pwait, set, &ready, 1, nanoseconds < 0 ? -1 : 0, NULL, 0);
#endif
    } else {
        count = -1;
        if (!atomic_load_explicit(&has_no_pwait2, memory_order_relaxed)) {
            struct timespec timeout = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
            count = (int)syscall(SYS_epoll_pwait2, set, &ready, 1, &timeout, NULL, 0);
            if (count < 0 && (errno == ENOSYS || errno == EPERM))
                atomic_store_explicit(&has_no_pwait2, true, memory_order_relaxed);
            else
                goto waited;
        }
        int64_t milliseconds = nanoseconds / 1000000 + (nanoseconds % 1000000 != 0);
        int timeout = milliseconds > INT32_MAX ? INT32_MAX : (int)milliseconds;
        count = (int)syscall(SYS_epoll_pwait, set, &ready, 1, timeout, NULL, 0);
    }
waited:
    if (count == 1) {
        event->events = ready.events;
        event->token = ready.data.u64;
    }
    return count;
}

int crl_timer_arm(int descriptor, uint64_t nanoseconds) {
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(nanoseconds / 1000000000), .tv_nsec = (long)(nanoseconds % 1000000000)}};
    return timerfd_settime(descriptor, TFD_TIMER_ABSTIME, &when, NULL);
}

bool crl_has_processors(void) {
    cpu_set_t all, one;
    CPU_ZERO(&all);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        // With more processors than the set holds, the call fails.
        if (atoi(task->d_name) > 0 && sched_getaffinity(atoi(task->d_name), sizeof one, &one) == 0)
            CPU_OR(&all, &all, &one);
    if (tasks) closedir(tasks);
    return CPU_COUNT(&all) != 1;
}

void crl_lock_slowly(uint32_t *word) {
    // Holders are quick: most are done before a sleep would have begun.
    for (int i = 0; i < 60; i++) {
        uint32_t free_word = 0;
        if (__atomic_load_n(word, __ATOMIC_RELAXED) == 0
            && __atomic_compare_exchange_n(word, &free_word, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
        crl_pause();
    }
    while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void crl_wake_waiter(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

void crl_latch_open(uint32_t *word) {
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

bool crl_latch_wait(uint32_t *word, uint64_t nanoseconds) {
    struct timespec end = {.tv_sec = (time_t)(nanoseconds / 1000000000), .tv_nsec = (long)(nanoseconds % 1000000000)};
    long result = 0;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) {
        if (result != 0 && errno == ETIMEDOUT) return false;
        result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, 0, &end, NULL, FUTEX_BITSET_MATCH_ANY);
    }
    return true;
}

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;
static void (*_Atomic value_destructor)(void *);

static void destroy_value(void *value) {
    void (*destructor)(void *) = atomic_load(&value_destructor);
    if (destructor) destructor(value);
}

static void make_key(void) { key_made = pthread_key_create(&key, destroy_value) == 0; }

// The thread-local copy is what `current` reads; the key is there for its destructor.
static _Thread_local void *thread_value;

void *crl_thread_value(void) { return thread_value; }

bool crl_thread_value_set(void *value, void (*destructor)(void *)) {
    pthread_once(&key_once, make_key);
    if (!key_made) return false;
    if (destructor) atomic_store(&value_destructor, destructor);
    if (pthread_setspecific(key, value) != 0) return false;
    thread_value = value;
    return true;
}

static _Thread_local int32_t callout_depth;
int32_t *crl_callout_depth(void) { return &callout_depth; }

int crl_thread_id(void) {
    static _Thread_local int id;
    if (id == 0) id = (int)syscall(SYS_gettid);
    return id;
}
bool crl_thread_has_ended(int thread) {
    return syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
}
int crl_process_id(void) { return getpid(); }
int crl_pipe(int ends[2]) {
    return pipe2(ends, O_CLOEXEC) == 0 ? fcntl(ends[0], F_SETFL, O_NONBLOCK) : -1;
}

void crl_buffer_output_by_lines(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

void crl_thread_set_name(const char *name) {
    char kept[16];
    snprintf(kept, sizeof kept, "%s", name);
    pthread_setname_np(pthread_self(), kept);
}

int crl_pidfd_open(int pid) { return (int)syscall(SYS_pidfd_open, pid, 0); }

uint64_t crl_mount(int folder, const char *path) {
    struct statx status;
    int flags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW;
    return statx(folder, path, flags, STATX_MNT_ID, &status) == 0 ? status.stx_mnt_id : 0;
}

enum { pidfd_type = 3 };  // P_PIDFD, which older headers lack

bool crl_pidfd_is_child(int descriptor) {
    siginfo_t info = {0};
    return waitid((idtype_t)pidfd_type, (id_t)descriptor, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

int crl_pidfd_collect(int descriptor, int *status) {
    siginfo_t info = {0};
    if (waitid((idtype_t)pidfd_type, (id_t)descriptor, &info, WEXITED | WNOHANG) != 0) return -1;
    if (info.si_pid == 0) return 0;
    *status = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
    return 1;
}

// Weak, so that a program that is linked without libdispatch has a main loop without a main queue.
extern int _dispatch_get_main_queue_handle_4CF(void) __attribute__((weak));
extern void _dispatch_main_queue_callback_4CF(void *) __attribute__((weak));

int crl_main_queue_descriptor(void) {
    static atomic_bool is_made;
    if (!_dispatch_get_main_queue_handle_4CF || !_dispatch_main_queue_callback_4CF) return -1;
    if (!atomic_load_explicit(&is_made, memory_order_relaxed)) {
        // The first call makes an eventfd, and ends the process when it gets none.
        int probe = eventfd(0, EFD_CLOEXEC);
        if (probe < 0) return -1;
        close(probe);
        atomic_store_explicit(&is_made, true, memory_order_relaxed);
    }
    return _dispatch_get_main_queue_handle_4CF();
}

void crl_main_queue_drain(void) {
    uint64_t count;
    while (read(_dispatch_get_main_queue_handle_4CF(), &count, sizeof count) < 0 && errno == EINTR) {}
    _dispatch_main_queue_callback_4CF(NULL);
}

// The main thread calls this when an async `main` first waits. By itself Swift would end the thread there and have the
// main actor live on others; our loop keeps it on this one. Weak, for programs that are linked without concurrency.
#define SWIFT_CC __attribute__((swiftcall))
typedef SWIFT_CC void (*drain_function)(void);
extern SWIFT_CC void (*swift_task_asyncMainDrainQueue_hook)(drain_function original, drain_function compatible)
    __attribute__((weak));
extern bool crl_run_main_loop(void);

static SWIFT_CC void drain_main(drain_function original, drain_function compatible) {
    (void)compatible;
    if (crl_main_queue_descriptor() >= 0) while (crl_run_main_loop()) {}
    original();
}

__attribute__((constructor)) static void hook_async_main(void) {
    if (&swift_task_asyncMainDrainQueue_hook && !swift_task_asyncMainDrainQueue_hook)
        swift_task_asyncMainDrainQueue_hook = drain_main;
}

enum { watchers_per_signal = 16 };
static struct {
    // Descriptor + 1; 0 is a free slot. Read by the handler, so atomics only.
    atomic_int slots[watchers_per_signal];
    int used;
    struct sigaction previous;
    pid_t owner;
} watched[NSIG];
static pthread_mutex_t watched_lock = PTHREAD_MUTEX_INITIALIZER;

// Handlers at work, so that a descriptor is never written to after `unwatch` has returned.
static atomic_int telling;

static void tell_watchers(int signal) {
    int saved = errno;
    uint64_t one = 1;
    // A forked child's eventfds are its parent's: there the signal has its former action, as soon as this one returns.
    if (getpid() != watched[signal].owner) {
        sigaction(signal, &watched[signal].previous, NULL);
        raise(signal);
        errno = saved;
        return;
    }
    atomic_fetch_add(&telling, 1);
    for (int i = 0; i < watchers_per_signal; i++) {
        int slot = atomic_load(&watched[signal].slots[i]);
        if (slot > 0) (void)!write(slot - 1, &one, sizeof one);
    }
    atomic_fetch_sub(&telling, 1);
    errno = saved;
}

int crl_signal_watch(int signal, int descriptor) {
    if (signal <= 0 || signal >= NSIG) {
        errno = EINVAL;
        return -1;
    }
    int result = -1;
    pthread_mutex_lock(&watched_lock);
    if (watched[signal].used == watchers_per_signal) {
        errno = EBUSY;
    } else {
        result = 0;
        if (watched[signal].used == 0) {
            struct sigaction action = {.sa_handler = tell_watchers, .sa_flags = SA_RESTART};
            sigemptyset(&action.sa_mask);
            watched[signal].owner = getpid();
            result = sigaction(signal, &action, &watched[signal].previous);
        }
        for (int i = 0; result == 0 && i < watchers_per_signal; i++) {
            if (atomic_load(&watched[signal].slots[i]) != 0) continue;
            atomic_store(&watched[signal].slots[i], descriptor + 1);
            watched[signal].used++;
            break;
        }
    }
    int error = errno;
    pthread_mutex_unlock(&watched_lock);
    errno = error;
    return result;
}

void crl_signal_unwatch(int signal, int descriptor) {
    if (signal <= 0 || signal >= NSIG) return;
    pthread_mutex_lock(&watched_lock);
    for (int i = 0; i < watchers_per_signal; i++) {
        if (atomic_load(&watched[signal].slots[i]) != descriptor + 1) continue;
        atomic_store(&watched[signal].slots[i], 0);
        if (--watched[signal].used == 0) sigaction(signal, &watched[signal].previous, NULL);
        break;
    }
    pthread_mutex_unlock(&watched_lock);
    while (atomic_load(&telling) != 0) sched_yield();
}

void crl_signal_unblock(int signal) {
    sigset_t this_one;
    sigemptyset(&this_one);
    sigaddset(&this_one, signal);
    pthread_sigmask(SIG_UNBLOCK, &this_one, NULL);
}

void crl_signal_unblock_only(const int signals[], int count) {
    sigset_t others;
    sigfillset(&others);
    for (int i = 0; i < count; i++) sigdelset(&others, signals[i]);
    pthread_sigmask(SIG_SETMASK, &others, NULL);
}

// Descriptors that a forked child closes, a bit for each. A fork takes the lock first: so no child has a descriptor that
// is open and not marked yet, or marked no more and not closed yet, and the child itself needs no lock.
static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *closed_in_child;
static size_t closed_in_child_words;
bool crl_forked;

static void before_fork(void) { pthread_mutex_lock(&fork_lock); }
static void after_fork_in_parent(void) { pthread_mutex_unlock(&fork_lock); }

static void after_fork_in_child(void) {
    __atomic_store_n(&crl_forked, true, __ATOMIC_RELAXED);
    for (size_t word = 0; word < closed_in_child_words; word++) {
        for (int bit = 0; bit < 64; bit++)
            if (closed_in_child[word] >> bit & 1) close((int)(word * 64) + bit);
        closed_in_child[word] = 0;
    }
    pthread_mutex_unlock(&fork_lock);
}

static void register_fork(void) { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

void crl_prepare_fork(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork);
}

// With the lock held. Closes the descriptor when there is no memory to mark it.
static int marked(int descriptor) {
    if (descriptor < 0) return descriptor;
    size_t word = (size_t)descriptor / 64;
    if (word >= closed_in_child_words) {
        size_t words = word < 8 ? 16 : word * 2;
        uint64_t *more = realloc(closed_in_child, words * sizeof *more);
        if (!more) {
            close(descriptor);
            errno = ENOMEM;
            return -1;
        }
        memset(more + closed_in_child_words, 0, (words - closed_in_child_words) * sizeof *more);
        closed_in_child = more;
        closed_in_child_words = words;
    }
    closed_in_child[word] |= (uint64_t)1 << descriptor % 64;
    return descriptor;
}

#define UNLESS_FORKING(call)             \
    pthread_mutex_lock(&fork_lock);      \
    int descriptor = marked(call);       \
    pthread_mutex_unlock(&fork_lock);    \
    return descriptor

int crl_unforked_socket(int type) { UNLESS_FORKING(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

int crl_unforked_accept(int listener) { UNLESS_FORKING(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)); }

int crl_unforked_duplicate(int of) { UNLESS_FORKING(fcntl(of, F_DUPFD_CLOEXEC, 0)); }

int crl_unforked_open(const char *path, int flags) { UNLESS_FORKING(open(path, flags | O_CLOEXEC)); }

void crl_unforked_close(int descriptor) {
    pthread_mutex_lock(&fork_lock);
    if ((size_t)descriptor / 64 < closed_in_child_words)
        closed_in_child[descriptor / 64] &= ~((uint64_t)1 << descriptor % 64);
    close(descriptor);
    pthread_mutex_unlock(&fork_lock);
}

bool crl_has_hung_up(int descriptor) {
    struct pollfd polled = {.fd = descriptor, .events = POLLRDHUP};
    return poll(&polled, 1, 0) > 0 && (polled.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

int crl_poll(int first, int second, int64_t nanoseconds) {
    struct pollfd polled[2] = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}};
    struct timespec timeout = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
    // The call fails for more descriptors than RLIMIT_NOFILE, which a sandbox may set to 1, be they none.
    nfds_t count = (first >= 0) + (second >= 0);
    int ready = ppoll(first >= 0 ? polled : polled + 1, count, nanoseconds < 0 ? NULL : &timeout, NULL);
    if (ready >= 0 || errno != EINVAL || count < 2) return ready;
    // The limit has come meanwhile: one after the other, a hundred times a second.
    for (const int64_t slice = 10000000;; nanoseconds -= nanoseconds < 0 ? 0 : slice) {
        bool is_last = nanoseconds >= 0 && nanoseconds <= slice;
        ready = crl_poll(second, -1, 0);
        if (ready == 0) ready = crl_poll(first, -1, is_last ? nanoseconds : slice);
        if (ready != 0 || is_last) return ready;
    }
}

bool crl_peer_credentials(int descriptor, int *pid, unsigned *uid, unsigned *gid) {
    struct ucred credentials;
    socklen_t size = sizeof credentials;
    if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return false;
    *pid = credentials.pid;
    *uid = credentials.uid;
    *gid = credentials.gid;
    return true;
}

int crl_pidfd_signal(int descriptor, int signal) {
    return (int)syscall(SYS_pidfd_send_signal, descriptor, signal, NULL, 0);
}

bool crl_has_steady_ticks(void) {
#if defined(__x86_64__)
    const char *wanted = "tsc\n";
#elif defined(__aarch64__)
    const char *wanted = "arch_sys_counter\n";
#else
    return false;
#endif
    char source[32] = "";
    int file = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    ssize_t count = read(file, source, sizeof source - 1);
    close(file);
    return count > 0 && strcmp(source, wanted) == 0;
}

// Shared memory, and the sockets that announce it.

int crl_memory_make(uint64_t size, bool may_freeze) {
    // A file beyond the limit would end the process by SIGXFSZ.
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    int descriptor = memfd_create("ports", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0) return -1;
    if (ftruncate(descriptor, (off_t)size) == 0
        && fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | (may_freeze ? 0 : F_SEAL_SEAL)) == 0)
        return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

uint64_t crl_memory_size(int descriptor) {
    const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat status;
    struct statfs system;
    int seals = fcntl(descriptor, F_GET_SEALS);
    // Huge pages can be sealed, too. Without a free one, a read of them would get a signal.
    if (seals < 0 || fstat(descriptor, &status) != 0 || fstatfs(descriptor, &system) != 0) return 0;
    if ((seals & sealed) == sealed && system.f_type == TMPFS_MAGIC) return (uint64_t)status.st_size;
    errno = EINVAL;
    return 0;
}

bool crl_memory_freeze(int descriptor, void *memory, uint64_t size) {
    // A shared mapping is in the way of the seal, before Linux 6.7 also one that only reads.
    return mmap(memory, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, descriptor, 0) != MAP_FAILED
        && crl_memory_seal(descriptor);
}

bool crl_memory_seal(int descriptor) { return fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) == 0; }

uint64_t crl_memory_whole_size(int descriptor, bool is_frozen) {
    struct stat status;
    int seals = fcntl(descriptor, F_GET_SEALS);
    // The use of a page that has no memory yet would cost the user memory, or get a signal.
    if (seals >= 0 && (!is_frozen || (seals & F_SEAL_WRITE)) && fstat(descriptor, &status) == 0
        && (uint64_t)status.st_blocks * 512 >= (uint64_t)status.st_size)
        return crl_memory_size(descriptor);
    errno = EINVAL;
    return 0;
}

const void *crl_memory_map_frozen(int descriptor, uint64_t size) {
    if (size == 0 || crl_memory_whole_size(descriptor, true) != size) return NULL;
    void *memory = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool crl_memory_read(int descriptor, void *bytes, uint64_t size) {
    return crl_memory_size(descriptor) == size && crl_memory_read_at(descriptor, bytes, size, 0);
}

bool crl_memory_read_at(int descriptor, void *bytes, uint64_t size, uint64_t offset) {
    uint64_t done = 0;
    while (done < size) {
        ssize_t count = pread(descriptor, (char *)bytes + done, size - done, (off_t)(offset + done));
        if (count == 0 || (count < 0 && errno != EINTR)) return false;
        if (count > 0) done += (uint64_t)count;
    }
    return true;
}

bool crl_memory_write(int descriptor, const void *bytes, uint64_t size) {
    uint64_t done = 0;
    while (done < size) {
        ssize_t count = pwrite(descriptor, (const char *)bytes + done, size - done, (off_t)done);
        if (count == 0 || (count < 0 && errno != EINTR)) return false;
        if (count > 0) done += (uint64_t)count;
    }
    return true;
}

void *crl_memory_map(int descriptor, uint64_t size) {
    return size > 0 && crl_memory_size(descriptor) == size ? crl_memory_map_begin(descriptor, size) : NULL;
}

void *crl_memory_map_begin(int descriptor, uint64_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
    if (memory == MAP_FAILED) return NULL;
    if (madvise(memory, size, MADV_DONTFORK) == 0 && crl_memory_populate(memory, 4096) == 0) return memory;
    int error = errno;
    munmap(memory, size);
    errno = error;
    return NULL;
}

void crl_memory_unmap(void *memory, uint64_t size) {
    // A forked child may have something else there.
    if (!crl_is_forked()) munmap(memory, size);
}

int crl_memory_populate(void *pages, uint64_t size) {
    const int populate_write = 23;  // Not in the headers of all systems: MADV_POPULATE_WRITE, since Linux 5.14.
    int result;
    do result = madvise(pages, size, populate_write);
    while (result != 0 && errno == EINTR);
    return result;
}

int crl_memory_release(void *pages, uint64_t size) { return madvise(pages, size, MADV_REMOVE); }

uint64_t crl_memory_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    return limit.rlim_cur;
}

int crl_socket_pair(int ends[2]) {
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
}

int crl_ring(int socket) {
    const char byte = 0;
    // The flag, and not O_NONBLOCK of the descriptor, which a process with a copy can change.
    while (send(socket, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        if (errno != EINTR) return errno;
    return 0;
}

bool crl_hear(int socket) {
    char bytes[4096];
    for (;;) {
        ssize_t count = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
        if (count == 0) return false;
        if (count < 0 && errno != EINTR) return errno == EAGAIN;
    }
}

int crl_epoll_take(int set, uint64_t tokens[16]) {
    struct epoll_event ready[16];
    int count;
    do count = epoll_wait(set, ready, 16, 0);
    while (count < 0 && errno == EINTR);
    for (int i = 0; i < count; i++) tokens[i] = ready[i].data.u64;
    return count < 0 ? 0 : count;
}

typedef union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * CRL_MOST_DESCRIPTORS)];
} descriptor_buffer;

int crl_send_packet(int socket, const void *bytes, size_t size, const int *descriptors, int count) {
    descriptor_buffer control;
    struct iovec part = {(void *)bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        memcpy(CMSG_DATA(header), descriptors, sizeof(int) * (size_t)count);
    }
    ssize_t sent;
    do sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -1 : 0;
}

bool crl_hear_memory(int socket, int *memory) {
    char bytes[4096];
    // A hostile sender may send without end.
    for (int reads = 0; reads < 64; reads++) {
        int count;
        ssize_t received = crl_receive_packet(socket, bytes, sizeof bytes, memory, 1, &count);
        if (received <= 0) {
            if (count > 0) close(*memory);
            return false;
        }
        if (count == 0) *memory = -1;
        // The kernel puts no bytes behind those that a descriptor has come with.
        if (bytes[received - 1] == CRL_MEMORY) return true;
        if (count > 0) close(*memory);
    }
    return false;
}

ssize_t crl_receive_packet(int socket, void *bytes, size_t size, int *descriptors, int most, int *count) {
    descriptor_buffer control;
    struct iovec part = {bytes, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (most > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)most);
    }
    *count = 0;
    ssize_t received;
    do received = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    if (received < 0) return received;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        size_t found = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < found; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            // The buffer may have room for one more than was asked for.
            if (*count < most) descriptors[(*count)++] = descriptor; else close(descriptor);
        }
    }
    return received;
}
