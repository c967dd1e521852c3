#define _GNU_SOURCE
#include "SimulatedCalls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <time.h>
#include <unistd.h>

static _Thread_local bool is_on;
void simulated_set_on(bool on) { is_on = on; }

// A system call past the C library, whose `syscall` is ours here.
static long raw(long number, long a, long b, long c, long d, long e, long f) {
    long result;
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    result = x0;
#else
#error "add this processor's system call"
#endif
    if (result >= 0 || result < -4095) return result;
    errno = (int)-result;
    return -1;
}
#define RAW(number, ...) RAW_OF(number, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define RAW_OF(number, a, b, c, d, e, f, ...) \
    raw(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static bool is_simulated(int descriptor) { return descriptor >= simulated_first_descriptor; }
static bool is_simulated_path(int folder, const char *path) {
    if (!is_on || !path) return false;
    if (path[0] != '/') return is_simulated(folder);
    return strncmp(path, "/sim", 4) == 0 || strncmp(path, "/proc/", 6) == 0 || strcmp(path, "/") == 0;
}

// MARK: The simulator's side. Each returns a result, or -errno.

extern int sim_open(int folder, const char *path, int flags, unsigned mode);
extern int sim_close(int descriptor);
extern long sim_read(int descriptor, void *bytes, unsigned long size);
extern long sim_write(int descriptor, const void *bytes, unsigned long size);
extern int sim_status(int folder, const char *path, bool follows, bool is_empty, struct stat *status);
extern int sim_chmod(int folder, const char *path, unsigned mode);
extern int sim_mkdir(int folder, const char *path, unsigned mode);
extern int sim_unlink(int folder, const char *path, bool is_folder);
extern int sim_rename(int folder, const char *path, int to_folder, const char *to);
extern int sim_readlink(const char *path, char *bytes, unsigned long size);
extern int sim_files(int descriptor, int index, char name[256]);
extern int sim_duplicate(int descriptor);
extern int sim_unread(int descriptor, bool of_peer);
extern int sim_memory_descriptor(int descriptor);
extern int sim_memory_create(int real);
extern int sim_memory_error(void);
extern void sim_memory_mapped(void *start, unsigned long size);
extern bool sim_memory_unmapped(void *start);
extern int sim_socket(int type);
extern int sim_socket_pair(int type, int ends[2]);
extern int sim_bind(int descriptor, const char *path);
extern int sim_listen(int descriptor, int backlog);
extern int sim_connect(int descriptor, const char *path);
extern int sim_accept(int descriptor);
extern int sim_peer(int descriptor);
extern int sim_peer_path(int descriptor, char path[108]);
extern long sim_send(int descriptor, const void *bytes, unsigned long size, const int *descriptors, int count);
extern long sim_receive(int descriptor, void *bytes, unsigned long size, int *descriptors, int *count);
extern int sim_shutdown(int descriptor);
extern int sim_poll(struct pollfd *polled, unsigned long count, int64_t nanoseconds);
extern int sim_epoll_create(void);
extern int sim_epoll_control(int set, int operation, int descriptor, uint32_t events, uint64_t token);
extern int sim_epoll_wait(int set, struct epoll_event *events, int most, int64_t nanoseconds);
extern int sim_eventfd(unsigned value);
extern int sim_timerfd(void);
extern int sim_timerfd_set(int descriptor, uint64_t nanoseconds);
extern int sim_inotify(void);
extern int sim_inotify_add(int descriptor, const char *path, uint32_t mask);
extern uint64_t sim_limit(int resource);
extern int sim_pid(void);
extern int sim_tid(void);
extern int sim_kill(int pid, int signal);
extern int sim_pidfd(int pid);
extern int sim_pidfd_signal(int descriptor, int signal);
extern int sim_collect(int descriptor, bool stays, int *status);
extern int sim_thread_exists(int thread);
extern uint64_t sim_now(void);
// What the clock on the wall shows more.
extern uint64_t sim_wall_clock(void);
extern uint64_t sim_random(void);
extern void sim_sleep(uint64_t nanoseconds);
extern void sim_yield(void);
extern int sim_futex_wait(const uint32_t *word, uint32_t value, int64_t deadline);
extern int sim_futex_wake(const uint32_t *word, int count);
extern int sim_thread_create(uint64_t *thread, void *(*body)(void *), void *argument);
extern void *sim_thread_join(uint64_t thread);
extern void sim_thread_name(const char *name);

static int result_of(int result) {
    if (result >= 0) return result;
    errno = -result;
    return -1;
}
static long long_result_of(long result) {
    if (result >= 0) return result;
    errno = (int)-result;
    return -1;
}

// MARK: Files

static int open_at(int folder, const char *path, int flags, unsigned mode) {
    if (is_simulated_path(folder, path)) return result_of(sim_open(folder, path, flags, mode));
    return (int)RAW(SYS_openat, folder, path, flags, mode);
}
static unsigned mode_argument(int flags, va_list arguments) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, unsigned) : 0; }

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_at(folder, path, flags, mode);
}

int close(int descriptor) {
    return is_simulated(descriptor) && is_on ? result_of(sim_close(descriptor)) : (int)RAW(SYS_close, descriptor);
}

ssize_t read(int descriptor, void *bytes, size_t size) {
    if (is_simulated(descriptor)) return long_result_of(sim_read(descriptor, bytes, size));
    return RAW(SYS_read, descriptor, bytes, size);
}

ssize_t write(int descriptor, const void *bytes, size_t size) {
    if (is_simulated(descriptor)) return long_result_of(sim_write(descriptor, bytes, size));
    return RAW(SYS_write, descriptor, bytes, size);
}

ssize_t pread(int descriptor, void *bytes, size_t size, off_t offset) {
    if (is_simulated(descriptor)) descriptor = sim_memory_descriptor(descriptor);
    return RAW(SYS_pread64, descriptor, bytes, size, offset);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t size, off_t offset) {
    if (is_simulated(descriptor)) {
        int error = sim_memory_error();
        if (error < 0) return result_of(error);
        descriptor = sim_memory_descriptor(descriptor);
    }
    return RAW(SYS_pwrite64, descriptor, bytes, size, offset);
}

int fstatat(int folder, const char *restrict path, struct stat *restrict status, int flags) {
    if (is_simulated_path(folder, path)) {
        memset(status, 0, sizeof *status);
        return result_of(sim_status(folder, path, !(flags & AT_SYMLINK_NOFOLLOW), false, status));
    }
    return (int)RAW(SYS_newfstatat, folder, path, status, flags);
}
int stat(const char *restrict path, struct stat *restrict status) { return fstatat(AT_FDCWD, path, status, 0); }
int lstat(const char *restrict path, struct stat *restrict status) {
    return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}
int fstat(int descriptor, struct stat *status) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_newfstatat, descriptor, "", status, AT_EMPTY_PATH);
    int memory = sim_memory_descriptor(descriptor);
    if (memory >= 0) return (int)RAW(SYS_newfstatat, memory, "", status, AT_EMPTY_PATH);
    memset(status, 0, sizeof *status);
    return result_of(sim_status(descriptor, "", true, true, status));
}
int fstatfs(int descriptor, struct statfs *status) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_fstatfs, descriptor, status);
    int memory = sim_memory_descriptor(descriptor);
    if (memory >= 0) return (int)RAW(SYS_fstatfs, memory, status);
    memset(status, 0, sizeof *status);
    return 0;
}
int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict status) {
    if (!is_simulated_path(folder, path) && !(is_simulated(folder) && *path == 0))
        return (int)RAW(SYS_statx, folder, path, flags, mask, status);
    struct stat found;
    memset(status, 0, sizeof *status);
    int result = sim_status(folder, path, false, *path == 0, &found);
    // One mount for all.
    if (result == 0) status->stx_mnt_id = 1;
    return result_of(result);
}
int access(const char *path, int mode) {
    if (!is_simulated_path(AT_FDCWD, path)) return (int)RAW(SYS_faccessat, AT_FDCWD, path, mode);
    struct stat status;
    return result_of(sim_status(AT_FDCWD, path, true, false, &status));
}
int fchmod(int descriptor, mode_t mode) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_fchmod, descriptor, mode);
    return result_of(sim_chmod(descriptor, "", mode));
}
int fchmodat(int folder, const char *path, mode_t mode, int flags) {
    if (!is_simulated_path(folder, path)) return (int)RAW(SYS_fchmodat, folder, path, mode, flags);
    return result_of(sim_chmod(folder, path, mode));
}
int mkdirat(int folder, const char *path, mode_t mode) {
    if (!is_simulated_path(folder, path)) return (int)RAW(SYS_mkdirat, folder, path, mode);
    return result_of(sim_mkdir(folder, path, mode));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
int unlinkat(int folder, const char *path, int flags) {
    if (!is_simulated_path(folder, path)) return (int)RAW(SYS_unlinkat, folder, path, flags);
    return result_of(sim_unlink(folder, path, flags & AT_REMOVEDIR));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int renameat(int folder, const char *path, int to_folder, const char *to) {
    if (!is_simulated_path(folder, path)) return (int)RAW(SYS_renameat2, folder, path, to_folder, to, 0);
    return result_of(sim_rename(folder, path, to_folder, to));
}
int rename(const char *path, const char *to) { return renameat(AT_FDCWD, path, AT_FDCWD, to); }
off_t lseek(int descriptor, off_t offset, int from) {
    if (!is_simulated(descriptor)) return RAW(SYS_lseek, descriptor, offset, from);
    // Of the end alone.
    struct stat status;
    return fstat(descriptor, &status) == 0 ? status.st_size : -1;
}
ssize_t readlink(const char *restrict path, char *restrict bytes, size_t size) {
    if (!is_simulated_path(AT_FDCWD, path)) return RAW(SYS_readlinkat, AT_FDCWD, path, bytes, size);
    return result_of(sim_readlink(path, bytes, size));
}
int flock(int descriptor, int operation) {
    return is_simulated(descriptor) ? 0 : (int)RAW(SYS_flock, descriptor, operation);
}
int ftruncate(int descriptor, off_t size) {
    if (is_simulated(descriptor)) {
        int error = sim_memory_error();
        if (error < 0) return result_of(error);
        descriptor = sim_memory_descriptor(descriptor);
    }
    return (int)RAW(SYS_ftruncate, descriptor, size);
}

// A folder that is being read.
struct reading {
    // The C library's own structures begin with a descriptor, which is small.
    int mark, descriptor, index;
    struct dirent entry;
};
static const int reading_mark = 0x5117ab1e;

DIR *fdopendir(int descriptor) {
    static DIR *(*next)(int);
    if (!is_simulated(descriptor)) {
        if (!next) next = (DIR * (*)(int)) dlsym(RTLD_NEXT, "fdopendir");
        return next(descriptor);
    }
    struct reading *made = calloc(1, sizeof *made);
    made->mark = reading_mark;
    made->descriptor = descriptor;
    return (DIR *)made;
}
struct dirent *readdir(DIR *stream) {
    static struct dirent *(*next)(DIR *);
    struct reading *reading = (struct reading *)stream;
    if (reading->mark != reading_mark) {
        if (!next) next = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
        return next(stream);
    }
    int result = sim_files(reading->descriptor, reading->index++, reading->entry.d_name);
    return result > 0 ? &reading->entry : NULL;
}
int closedir(DIR *stream) {
    static int (*next)(DIR *);
    struct reading *reading = (struct reading *)stream;
    if (reading->mark != reading_mark) {
        if (!next) next = (int (*)(DIR *))dlsym(RTLD_NEXT, "closedir");
        return next(stream);
    }
    int result = close(reading->descriptor);
    free(reading);
    return result;
}

int inotify_init1(int flags) { return is_on ? result_of(sim_inotify()) : (int)RAW(SYS_inotify_init1, flags); }
int inotify_add_watch(int descriptor, const char *path, uint32_t mask) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_inotify_add_watch, descriptor, path, mask);
    return result_of(sim_inotify_add(descriptor, path, mask));
}

// MARK: Descriptors

int fcntl(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    long argument = va_arg(arguments, long);
    va_end(arguments);
    // The standard input's lowest free copy tells how many descriptors are left.
    if (is_on && command == F_DUPFD_CLOEXEC) return result_of(sim_duplicate(descriptor));
    if (!is_simulated(descriptor)) return (int)RAW(SYS_fcntl, descriptor, command, argument);
    int memory = sim_memory_descriptor(descriptor);
    if (memory >= 0) return (int)RAW(SYS_fcntl, memory, command, argument);
    if (command == F_ADD_SEALS || command == F_GET_SEALS) return result_of(-EINVAL);
    return 0;
}
int ioctl(int descriptor, unsigned long request, ...) {
    va_list arguments;
    va_start(arguments, request);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    if (!is_simulated(descriptor)) return (int)RAW(SYS_ioctl, descriptor, request, argument);
    int count = sim_unread(descriptor, request == TIOCOUTQ);
    if (count >= 0) *(int *)argument = count;
    return count >= 0 ? 0 : result_of(count);
}
int getrlimit(__rlimit_resource_t resource, struct rlimit *limit) {
    int result = (int)RAW(SYS_prlimit64, 0, resource, NULL, limit);
    if (is_on && result == 0 && (resource == RLIMIT_NOFILE || resource == RLIMIT_AS || resource == RLIMIT_FSIZE))
        limit->rlim_cur = limit->rlim_max = sim_limit(resource);
    return result;
}
int setrlimit(__rlimit_resource_t resource, const struct rlimit *limit) {
    return is_on ? 0 : (int)RAW(SYS_prlimit64, 0, resource, limit, NULL);
}
int epoll_create1(int flags) { return is_on ? result_of(sim_epoll_create()) : (int)RAW(SYS_epoll_create1, flags); }
int epoll_ctl(int set, int operation, int descriptor, struct epoll_event *event) {
    if (!is_simulated(set)) return (int)RAW(SYS_epoll_ctl, set, operation, descriptor, event);
    return result_of(
        sim_epoll_control(set, operation, descriptor, event ? event->events : 0, event ? event->data.u64 : 0));
}
int epoll_wait(int set, struct epoll_event *events, int most, int milliseconds) {
    if (!is_simulated(set)) return (int)RAW(SYS_epoll_pwait, set, events, most, milliseconds, NULL, 8);
    return result_of(sim_epoll_wait(set, events, most, milliseconds < 0 ? -1 : (int64_t)milliseconds * 1000000));
}
int eventfd(unsigned value, int flags) {
    return is_on ? result_of(sim_eventfd(value)) : (int)RAW(SYS_eventfd2, value, flags);
}
int timerfd_create(clockid_t clock, int flags) {
    return is_on ? result_of(sim_timerfd()) : (int)RAW(SYS_timerfd_create, clock, flags);
}
int timerfd_settime(int descriptor, int flags, const struct itimerspec *when, struct itimerspec *former) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_timerfd_settime, descriptor, flags, when, former);
    return result_of(sim_timerfd_set(
        descriptor, (uint64_t)when->it_value.tv_sec * 1000000000 + (uint64_t)when->it_value.tv_nsec));
}
int poll(struct pollfd *polled, nfds_t count, int milliseconds) {
    if (is_on) return result_of(sim_poll(polled, count, milliseconds < 0 ? -1 : (int64_t)milliseconds * 1000000));
    struct timespec timeout = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    return (int)RAW(SYS_ppoll, polled, count, milliseconds < 0 ? NULL : &timeout, NULL, 0);
}
int ppoll(struct pollfd *polled, nfds_t count, const struct timespec *timeout, const sigset_t *signals) {
    if (is_on)
        return result_of(
            sim_poll(polled, count, timeout ? (int64_t)timeout->tv_sec * 1000000000 + timeout->tv_nsec : -1));
    struct timespec rest = timeout ? *timeout : (struct timespec){0};
    return (int)RAW(SYS_ppoll, polled, count, timeout ? &rest : NULL, signals, 8);
}

// MARK: Memory

int memfd_create(const char *name, unsigned flags) {
    int real = (int)RAW(SYS_memfd_create, name, flags);
    if (!is_on || real < 0) return real;
    int made = sim_memory_create(real);
    if (made < 0) RAW(SYS_close, real);
    return result_of(made);
}
void *mmap(void *start, size_t size, int protection, int flags, int descriptor, off_t offset) {
    bool is_ours = is_on && is_simulated(descriptor);
    if (is_ours && result_of(sim_memory_error()) < 0) return MAP_FAILED;
    if (is_ours) descriptor = sim_memory_descriptor(descriptor);
    void *mapped = (void *)RAW(SYS_mmap, start, size, protection, flags, descriptor, offset);
    if (is_ours && mapped != MAP_FAILED) sim_memory_mapped(mapped, size);
    return mapped;
}
int madvise(void *start, size_t size, int advice) {
    const int populate_write = 23;
    if (is_on && advice == populate_write && result_of(sim_memory_error()) < 0) return -1;
    return (int)RAW(SYS_madvise, start, size, advice);
}
int munmap(void *start, size_t size) {
    if (is_on) sim_memory_unmapped(start);
    return (int)RAW(SYS_munmap, start, size);
}
void simulated_memory_close(int descriptor) { RAW(SYS_close, descriptor); }
void simulated_memory_detach(void *start, uint64_t size) {
    RAW(SYS_mmap, start, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// MARK: Sockets

static const char *path_of(const struct sockaddr *address) { return ((const struct sockaddr_un *)address)->sun_path; }

int socket(int domain, int type, int protocol) {
    return is_on ? result_of(sim_socket(type & 0xff)) : (int)RAW(SYS_socket, domain, type, protocol);
}
int socketpair(int domain, int type, int protocol, int ends[2]) {
    return is_on ? result_of(sim_socket_pair(type & 0xff, ends))
                 : (int)RAW(SYS_socketpair, domain, type, protocol, ends);
}
int bind(int descriptor, const struct sockaddr *address, socklen_t size) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_bind, descriptor, address, size);
    return result_of(sim_bind(descriptor, path_of(address)));
}
int listen(int descriptor, int backlog) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_listen, descriptor, backlog);
    return result_of(sim_listen(descriptor, backlog));
}
int connect(int descriptor, const struct sockaddr *address, socklen_t size) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_connect, descriptor, address, size);
    return result_of(sim_connect(descriptor, path_of(address)));
}
// The guard of `accept4` defines that name, and asks for the next one.
static int accept_next(int descriptor, struct sockaddr *address, socklen_t *size, int flags) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_accept4, descriptor, address, size, flags);
    return result_of(sim_accept(descriptor));
}
void *dlsym(void *restrict handle, const char *restrict name) {
    static void *(*next)(void *, const char *);
    if (handle == RTLD_NEXT && strcmp(name, "accept4") == 0) return (void *)accept_next;
    if (!next) next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (!next) next = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    return next(handle, name);
}
int getsockopt(int descriptor, int level, int option, void *restrict value, socklen_t *restrict size) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_getsockopt, descriptor, level, option, value, size);
    if (option == SO_PEERCRED) {
        int pid = sim_peer(descriptor);
        *(struct ucred *)value = (struct ucred){pid, geteuid(), getegid()};
        return pid < 0 ? result_of(pid) : 0;
    }
    if (option == SO_SNDBUF) {
        *(int *)value = 212992;
        return 0;
    }
    return result_of(-ENOPROTOOPT);
}
int getpeername(int descriptor, struct sockaddr *restrict address, socklen_t *restrict size) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_getpeername, descriptor, address, size);
    struct sockaddr_un *local = (struct sockaddr_un *)address;
    local->sun_family = AF_UNIX;
    return result_of(sim_peer_path(descriptor, local->sun_path));
}
ssize_t sendmsg(int descriptor, const struct msghdr *message, int flags) {
    if (!is_simulated(descriptor)) return RAW(SYS_sendmsg, descriptor, message, flags);
    const int *descriptors = NULL;
    int count = 0;
    if (message->msg_control) {
        struct cmsghdr *header = CMSG_FIRSTHDR(message);
        descriptors = (const int *)CMSG_DATA(header);
        count = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    }
    return long_result_of(
        sim_send(descriptor, message->msg_iov[0].iov_base, message->msg_iov[0].iov_len, descriptors, count));
}
ssize_t recvmsg(int descriptor, struct msghdr *message, int flags) {
    if (!is_simulated(descriptor)) return RAW(SYS_recvmsg, descriptor, message, flags);
    int descriptors[64];
    int count = 0;
    long received =
        sim_receive(descriptor, message->msg_iov[0].iov_base, message->msg_iov[0].iov_len, descriptors, &count);
    if (received >= 0 && count > 0) {
        struct cmsghdr *header = (struct cmsghdr *)message->msg_control;
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
        memcpy(CMSG_DATA(header), descriptors, sizeof(int) * (size_t)count);
        message->msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
    } else {
        message->msg_controllen = 0;
    }
    return long_result_of(received);
}
ssize_t send(int descriptor, const void *bytes, size_t size, int flags) {
    if (!is_simulated(descriptor)) return RAW(SYS_sendto, descriptor, bytes, size, flags, NULL, 0);
    return long_result_of(sim_send(descriptor, bytes, size, NULL, 0));
}
ssize_t recv(int descriptor, void *bytes, size_t size, int flags) {
    if (!is_simulated(descriptor)) return RAW(SYS_recvfrom, descriptor, bytes, size, flags, NULL, NULL);
    int count = 0;
    return long_result_of(sim_receive(descriptor, bytes, size, NULL, &count));
}
int shutdown(int descriptor, int how) {
    if (!is_simulated(descriptor)) return (int)RAW(SYS_shutdown, descriptor, how);
    return result_of(sim_shutdown(descriptor));
}

// MARK: Processes, time and chance

pid_t getpid(void) { return is_on ? sim_pid() : (pid_t)RAW(SYS_getpid); }
int kill(pid_t pid, int signal) {
    return is_on ? result_of(sim_kill(pid, signal)) : (int)RAW(SYS_kill, pid, signal);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!is_on) return (int)RAW(SYS_clock_gettime, clock, now);
    uint64_t nanoseconds = sim_now();
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) nanoseconds += sim_wall_clock();
    now->tv_sec = (time_t)(nanoseconds / 1000000000);
    now->tv_nsec = (long)(nanoseconds % 1000000000);
    return 0;
}
int usleep(useconds_t microseconds) {
    if (is_on) {
        sim_sleep((uint64_t)microseconds * 1000);
        return 0;
    }
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    return (int)RAW(SYS_nanosleep, &time, NULL);
}
int nanosleep(const struct timespec *time, struct timespec *rest) {
    if (!is_on) return (int)RAW(SYS_nanosleep, time, rest);
    sim_sleep((uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec);
    return 0;
}
int sched_yield(void) {
    if (!is_on) return (int)RAW(SYS_sched_yield);
    sim_yield();
    return 0;
}

static void fill_random(void *bytes, size_t size) {
    for (size_t done = 0; done < size; done += 8) {
        uint64_t number = sim_random();
        memcpy((char *)bytes + done, &number, size - done < 8 ? size - done : 8);
    }
}
ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
    if (!is_on) return RAW(SYS_getrandom, bytes, size, flags);
    fill_random(bytes, size);
    return (ssize_t)size;
}
int getentropy(void *bytes, size_t size) { return getrandom(bytes, size, 0) < 0 ? -1 : 0; }
void arc4random_buf(void *bytes, size_t size) { getrandom(bytes, size, 0); }
// Swift's random numbers.
void swift_stdlib_random(void *bytes, size_t size) {
    if (is_on) fill_random(bytes, size); else RAW(SYS_getrandom, bytes, size, 0);
}

long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (!is_on) return raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    switch (number) {
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait: {
        int milliseconds = (int)a[3];
        return result_of(sim_epoll_wait((int)a[0], (struct epoll_event *)a[1], (int)a[2],
                                        milliseconds < 0 ? -1 : (int64_t)milliseconds * 1000000));
    }
    case SYS_epoll_pwait2: {
        const struct timespec *timeout = (const struct timespec *)a[3];
        return result_of(sim_epoll_wait((int)a[0], (struct epoll_event *)a[1], (int)a[2],
                                        timeout ? (int64_t)timeout->tv_sec * 1000000000 + timeout->tv_nsec : -1));
    }
    case SYS_futex: {
        int operation = (int)a[1] & 0x7f;
        const struct timespec *end = (const struct timespec *)a[3];
        if (operation == FUTEX_WAKE) return sim_futex_wake((const uint32_t *)a[0], (int)a[2]);
        if (operation == FUTEX_WAIT) return result_of(sim_futex_wait((const uint32_t *)a[0], (uint32_t)a[2], -1));
        if (operation == FUTEX_WAIT_BITSET) {
            int64_t deadline = end ? (int64_t)end->tv_sec * 1000000000 + end->tv_nsec : -1;
            return result_of(sim_futex_wait((const uint32_t *)a[0], (uint32_t)a[2], deadline < 0 && end ? INT64_MAX : deadline));
        }
        break;
    }
    case SYS_gettid: return sim_tid();
    case SYS_getrandom: return getrandom((void *)a[0], (size_t)a[1], (unsigned)a[2]);
    case SYS_tgkill: return result_of(sim_thread_exists((int)a[1]) ? 0 : -ESRCH);
    case SYS_pidfd_open: return result_of(sim_pidfd((int)a[0]));
    case SYS_pidfd_send_signal: return result_of(sim_pidfd_signal((int)a[0], (int)a[1]));
    }
    return raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// The status of a child that has ended is below zero for a signal.
int waitid(idtype_t type, id_t id, siginfo_t *info, int options) {
    if (!is_simulated((int)id)) return (int)RAW(SYS_waitid, type, id, info, options, NULL);
    int status = 0, result = sim_collect((int)id, options & WNOWAIT, &status);
    if (result < 0) return result_of(result);
    memset(info, 0, sizeof *info);
    if (result == 0) return 0;
    info->si_pid = 1;
    info->si_code = status >= 0 ? CLD_EXITED : CLD_KILLED;
    info->si_status = status >= 0 ? status : -status;
    return 0;
}

// MARK: Threads

// Where a thread goes on: its stack, with the registers that a call keeps, and the memory of its own. The offsets are known to
// the code below.
struct simulated_place { void *stack, *memory; _Atomic uint32_t is_known; };
simulated_place *simulated_place_make(void) { return calloc(1, sizeof(simulated_place)); }

// Not a switch between threads of the kernel, which takes some microseconds: the one that runs the machine takes the stack and
// the memory of the other thread, whose own one has been waiting since the start.
// `simulated_leave` notes the caller's place, and never returns to the kernel's thread that has called it.
void simulated_leave(simulated_place *place);
#if defined(__x86_64__)
_Static_assert(offsetof(struct simulated_place, memory) == 8 && offsetof(struct simulated_place, is_known) == 16, "below");
// Whether the kernel lets programs set the register that has the address of a thread's memory.
__attribute__((used)) static uint8_t may_set_memory;
__attribute__((constructor)) static void look_at_processor(void) { may_set_memory = (getauxval(AT_HWCAP2) & 2) != 0; }
__asm__(
    ".text\n"
    ".macro NOTE_PLACE\n"
    "    push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
    "    mov %rsp, (%rdi); mov %fs:0, %rax; mov %rax, 8(%rdi)\n"
    ".endm\n"
    ".globl simulated_switch\n.type simulated_switch, @function\n"
    "simulated_switch:\n"
    "    NOTE_PLACE\n"
    "    mov (%rsi), %rsp; mov 8(%rsi), %rsi\n"
    "    cmpb $0, may_set_memory(%rip); je 1f\n"
    "    wrfsbase %rsi; jmp 2f\n"
    "1:  mov $0x1002, %edi; mov $158, %eax; syscall\n"  // arch_prctl(ARCH_SET_FS, memory)
    "2:  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; ret\n"
    ".size simulated_switch, . - simulated_switch\n"
    ".globl simulated_leave\n.type simulated_leave, @function\n"
    "simulated_leave:\n"
    "    NOTE_PLACE\n"
    "    add $16, %rdi; movl $1, (%rdi)\n"
    "    mov $1, %esi; mov $1, %edx; mov $202, %eax; syscall\n"  // futex(&is_known, FUTEX_WAKE, 1)
    "1:  mov $34, %eax; syscall; jmp 1b\n"  // pause()
    ".size simulated_leave, . - simulated_leave\n");
#elif defined(__aarch64__)
_Static_assert(offsetof(struct simulated_place, memory) == 8 && offsetof(struct simulated_place, is_known) == 16, "below");
__asm__(
    ".text\n"
    ".macro NOTE_PLACE\n"
    "    sub sp, sp, #160\n"
    "    stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]\n"
    "    stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]\n"
    "    mov x9, sp; str x9, [x0]; mrs x9, tpidr_el0; str x9, [x0, #8]\n"
    ".endm\n"
    ".globl simulated_switch\n.type simulated_switch, %function\n"
    "simulated_switch:\n"
    "    NOTE_PLACE\n"
    "    ldr x9, [x1]; mov sp, x9; ldr x9, [x1, #8]; msr tpidr_el0, x9\n"
    "    ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]\n"
    "    ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #160; ret\n"
    ".globl simulated_leave\n.type simulated_leave, %function\n"
    "simulated_leave:\n"
    "    NOTE_PLACE\n"
    "    add x0, x0, #16; mov w9, #1; stlr w9, [x0]\n"
    "    mov x1, #1; mov x2, #1; mov x8, #98; svc #0\n"  // futex(&is_known, FUTEX_WAKE, 1)
    "1:  mov x0, #0; mov x1, #0; mov x2, #0; mov x3, #0; mov x8, #73; svc #0; b 1b\n");  // ppoll of nothing
#endif

typedef int create_function(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static create_function *next_create(void) {
    static create_function *next;
    if (!next) next = (create_function *)dlsym(RTLD_NEXT, "pthread_create");
    return next;
}

struct start { simulated_place *place; void (*body)(void *); void *argument; };
static void *begin_thread(void *argument) {
    struct start start = *(struct start *)argument;
    // A handler of a signal would use the stack.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    simulated_leave(start.place);
    free(argument);
    is_on = true;
    start.body(start.argument);
    return NULL;
}
bool simulated_start_thread(simulated_place *place, void (*body)(void *), void *argument) {
    struct start *start = malloc(sizeof *start);
    *start = (struct start){place, body, argument};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 512 << 10);
    pthread_t made;
    if (next_create()(&made, &attributes, begin_thread, start) != 0) return false;
    while (!place->is_known) RAW(SYS_futex, &place->is_known, FUTEX_WAIT, 0, NULL);
    return true;
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*body)(void *),
                   void *restrict argument) {
    if (!is_on) return next_create()(thread, attributes, body, argument);
    uint64_t made;
    int result = sim_thread_create(&made, body, argument);
    *thread = (pthread_t)made;
    return result;
}
int pthread_join(pthread_t thread, void **result) {
    static int (*next)(pthread_t, void **);
    if (!next) next = (int (*)(pthread_t, void **))dlsym(RTLD_NEXT, "pthread_join");
    if (!is_on) return next(thread, result);
    void *found = sim_thread_join((uint64_t)thread);
    if (result) *result = found;
    return 0;
}
int pthread_detach(pthread_t thread) {
    static int (*next)(pthread_t);
    if (!next) next = (int (*)(pthread_t))dlsym(RTLD_NEXT, "pthread_detach");
    return is_on ? 0 : next(thread);
}

int pthread_setname_np(pthread_t thread, const char *name) {
    static int (*next)(pthread_t, const char *);
    if (!next) next = (int (*)(pthread_t, const char *))dlsym(RTLD_NEXT, "pthread_setname_np");
    if (!is_on) return next(thread, name);
    sim_thread_name(name);
    return 0;
}

// A thread may wait in a simulated call while it holds a lock of the C library.
int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static int (*next)(pthread_mutex_t *);
    if (!next) next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    if (is_on) while (pthread_mutex_trylock(mutex) == EBUSY) sim_sleep(1000); else return next(mutex);
    return 0;
}

// MARK: Tasks and queues

#define SWIFT_CC __attribute__((swiftcall))
typedef SWIFT_CC void (*enqueue_original)(void *job);
extern SWIFT_CC void (*swift_task_enqueueGlobal_hook)(void *job, enqueue_original original);
extern SWIFT_CC void (*swift_task_enqueueMainExecutor_hook)(void *job, enqueue_original original);
extern SWIFT_CC void swift_job_run(void *job, void *identity, void *implementation);
extern void sim_enqueue(void *job);

static SWIFT_CC void enqueue(void *job, enqueue_original original) {
    if (is_on) sim_enqueue(job); else original(job);
}
void simulated_tasks_begin(void) {
    swift_task_enqueueGlobal_hook = enqueue;
    swift_task_enqueueMainExecutor_hook = enqueue;
}
void simulated_job_run(void *job) { swift_job_run(job, NULL, NULL); }

// The queues of Dispatch. Its threads would be those of all processes.
extern void *_Block_copy(const void *block);
extern void _Block_release(const void *block);
extern void sim_dispatch(void *queue, void *block, uint64_t time);
extern void sim_perform(void (*function)(void *), void *context, uint64_t time);

// Without the bit of the clock: all clocks of a machine but the one on the wall show the same time.
static uint64_t dispatch_time_of(uint64_t time) { return time & ~(1ull << 63); }

void dispatch_async(void *queue, void *block) {
    static void (*next)(void *, void *);
    if (!next) next = (void (*)(void *, void *))dlsym(RTLD_NEXT, "dispatch_async");
    if (is_on) sim_dispatch(queue, _Block_copy(block), 0); else next(queue, block);
}
void dispatch_after(uint64_t time, void *queue, void *block) {
    static void (*next)(uint64_t, void *, void *);
    if (!next) next = (void (*)(uint64_t, void *, void *))dlsym(RTLD_NEXT, "dispatch_after");
    if (is_on) sim_dispatch(queue, _Block_copy(block), dispatch_time_of(time)); else next(time, queue, block);
}
// Swift's tasks sleep by these.
void dispatch_async_f(void *queue, void *context, void (*function)(void *)) {
    static void (*next)(void *, void *, void (*)(void *));
    if (!next) next = (void (*)(void *, void *, void (*)(void *)))dlsym(RTLD_NEXT, "dispatch_async_f");
    if (is_on) sim_perform(function, context, 0); else next(queue, context, function);
}
void dispatch_after_f(uint64_t time, void *queue, void *context, void (*function)(void *)) {
    static void (*next)(uint64_t, void *, void *, void (*)(void *));
    if (!next) next = (void (*)(uint64_t, void *, void *, void (*)(void *)))dlsym(RTLD_NEXT, "dispatch_after_f");
    if (is_on) sim_perform(function, context, dispatch_time_of(time)); else next(time, queue, context, function);
}
// A source of a task that sleeps with a tolerance has a function, and that of an alarm has a block.
struct timer { uint64_t mark, time; int references; bool is_cancelled; void *context, *block; void (*function)(void *); };
static const uint64_t timer_mark = 0x5117ab1e5117ab1e;
static struct timer *timer_of(void *object) {
    struct timer *timer = object;
    return timer && timer->mark == timer_mark ? timer : NULL;
}
void *dispatch_source_create(const void *type, uintptr_t handle, uintptr_t mask, void *queue) {
    static void *(*next)(const void *, uintptr_t, uintptr_t, void *);
    if (!next) next = (void *(*)(const void *, uintptr_t, uintptr_t, void *))dlsym(RTLD_NEXT, "dispatch_source_create");
    if (!is_on) return next(type, handle, mask, queue);
    struct timer *made = calloc(1, sizeof *made);
    made->mark = timer_mark;
    made->references = 1;
    return made;
}
void *dispatch_retain(void *object) {
    static void *(*next)(void *);
    if (!next) next = (void *(*)(void *))dlsym(RTLD_NEXT, "dispatch_retain");
    struct timer *timer = timer_of(object);
    if (!timer) return next(object);
    timer->references++;
    return object;
}
static void release_timer(struct timer *timer) {
    if (--timer->references > 0) return;
    if (timer->block) _Block_release(timer->block);
    free(timer);
}
static void run_timer(void *object) {
    struct timer *timer = object;
    if (!timer->is_cancelled && timer->function) timer->function(timer->context);
    if (!timer->is_cancelled && timer->block) {
        // The handler may be taken away while it runs.
        void *block = _Block_copy(timer->block);
        simulated_block_run(block);
    }
    release_timer(timer);
}
void dispatch_source_set_event_handler(void *source, void *block) {
    static void (*next)(void *, void *);
    if (!next) next = (void (*)(void *, void *))dlsym(RTLD_NEXT, "dispatch_source_set_event_handler");
    struct timer *timer = timer_of(source);
    if (!timer) return next(source, block);
    void *former = timer->block;
    timer->block = block ? _Block_copy(block) : NULL;
    if (former) _Block_release(former);
}
void dispatch_source_cancel(void *source) {
    static void (*next)(void *);
    if (!next) next = (void (*)(void *))dlsym(RTLD_NEXT, "dispatch_source_cancel");
    struct timer *timer = timer_of(source);
    if (timer) timer->is_cancelled = true; else next(source);
}
void dispatch_source_set_timer(void *source, uint64_t time, uint64_t interval, uint64_t leeway) {
    static void (*next)(void *, uint64_t, uint64_t, uint64_t);
    if (!next) next = (void (*)(void *, uint64_t, uint64_t, uint64_t))dlsym(RTLD_NEXT, "dispatch_source_set_timer");
    struct timer *timer = timer_of(source);
    if (timer) timer->time = time; else next(source, time, interval, leeway);
}
void dispatch_source_set_event_handler_f(void *source, void (*function)(void *)) {
    static void (*next)(void *, void (*)(void *));
    if (!next) next = (void (*)(void *, void (*)(void *)))dlsym(RTLD_NEXT, "dispatch_source_set_event_handler_f");
    struct timer *timer = timer_of(source);
    if (timer) timer->function = function; else next(source, function);
}
void dispatch_set_context(void *object, void *context) {
    static void (*next)(void *, void *);
    if (!next) next = (void (*)(void *, void *))dlsym(RTLD_NEXT, "dispatch_set_context");
    struct timer *timer = timer_of(object);
    if (timer) timer->context = context; else next(object, context);
}
void dispatch_activate(void *object) {
    static void (*next)(void *);
    if (!next) next = (void (*)(void *))dlsym(RTLD_NEXT, "dispatch_activate");
    struct timer *timer = timer_of(object);
    if (!timer) return next(object);
    timer->references++;
    sim_perform(run_timer, timer, dispatch_time_of(timer->time));
}
void dispatch_queue_set_width(void *queue, long width) {
    static void (*next)(void *, long);
    if (!next) next = (void (*)(void *, long))dlsym(RTLD_NEXT, "dispatch_queue_set_width");
    if (!is_on) next(queue, width);
}
void dispatch_release(void *object) {
    static void (*next)(void *);
    if (!next) next = (void (*)(void *))dlsym(RTLD_NEXT, "dispatch_release");
    struct timer *timer = timer_of(object);
    if (timer) release_timer(timer); else next(object);
}

void simulated_block_run(void *block) {
    struct block { void *class; int flags, reserved; void (*invoke)(void *); };
    ((struct block *)block)->invoke(block);
    _Block_release(block);
}

// MARK: The simulator's own process

bool simulated_fix_addresses(char *arguments[], bool are_used) {
    int now = personality(0xffffffff);
    if (now & ADDR_NO_RANDOMIZE && are_used) return true;
    if (personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0) return true;
    setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1);
    execv("/proc/self/exe", arguments);
    return false;
}
extern bool crl_forked;
int simulated_fork(void) {
    int pid = fork();
    if (pid == 0) {
        // The child's runtimes are its own: nothing was made before.
        crl_forked = false;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return pid;
}
void simulated_pin(int processor) {
    cpu_set_t all, one;
    int count = sched_getaffinity(0, sizeof all, &all) == 0 ? CPU_COUNT(&all) : 0;
    if (count == 0) return;
    CPU_ZERO(&one);
    for (int number = 0, wanted = processor % count; number < CPU_SETSIZE; number++)
        if (CPU_ISSET(number, &all) && wanted-- == 0) CPU_SET(number, &one);
    sched_setaffinity(0, sizeof one, &one);
}
int simulated_wait(int pid, int *status, int64_t milliseconds) {
    int file = milliseconds < 0 ? -1 : (int)RAW(SYS_pidfd_open, pid, 0);
    if (file < 0) return waitpid(pid, status, 0);
    struct pollfd polled = {.fd = file, .events = POLLIN};
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    RAW(SYS_ppoll, &polled, 1, &time, NULL, 8);
    RAW(SYS_close, file);
    return waitpid(pid, status, WNOHANG);
}
int64_t *simulated_shared_number(void) {
    return (int64_t *)RAW(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
// In a build that counts which lines were run. Each process writes a file of its own into PROFILES=<folder>.
extern int __llvm_profile_write_file(void) __attribute__((weak));
extern void __llvm_profile_set_filename(const char *) __attribute__((weak));
void simulated_exit(int status) {
    is_on = false;
    const char *folder = getenv("PROFILES");
    if (folder && __llvm_profile_write_file && __llvm_profile_set_filename) {
        static char name[4096];
        snprintf(name, sizeof name, "%s/%d.profraw", folder, (int)RAW(SYS_getpid));
        __llvm_profile_set_filename(name);
        __llvm_profile_write_file();
    }
    _exit(status);
}
int simulated_accept(int listener) { return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); }
void simulated_set_up_output(void) { setvbuf(stdout, NULL, _IOLBF, 0); }
