#define _GNU_SOURCE
#include "CAcceptGuard.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

typedef int accept_function(int, struct sockaddr *, socklen_t *, int);
static accept_function *next_accept4;

__attribute__((constructor)) static void find_next(void) {
    next_accept4 = (accept_function *)dlsym(RTLD_NEXT, "accept4");
}

static int call_next(int listener, struct sockaddr *address, socklen_t *size, int flags) {
    if (next_accept4) return next_accept4(listener, address, size, flags);
    return (int)syscall(SYS_accept4, listener, address, size, flags);
}

static accept_function guarded_accept;

static bool in_force;
bool cag_is_in_force(void) { return in_force; }

static const void *object_of(const void *address) {
    Dl_info found;
    return address && dladdr(address, &found) ? found.dli_fbase : NULL;
}

static void see_whether_in_force(void) {
    const void *own = object_of((const void *)guarded_accept);
    // In one object with libzmq, or in a program that has no others, the static linker has bound the calls.
    in_force = !own || own == object_of((const void *)zmq_bind) || own == object_of(dlsym(RTLD_DEFAULT, "accept4"));
}

struct connection {
    int descriptor;
    ino_t inode;
};

// Only the thread that accepts at the listener uses the fields, except for the inode.
struct guarded {
    _Atomic ino_t inode;
    int most;
    int count, room;
    struct connection *connections;
    // The time at which all connections were found open.
    int64_t full_at;
    // Counted by the threads one after the other, so that each sees the fields as the one before has left them. The kernel
    // orders them, too: a number is free when its listener is closed.
    atomic_int uses;
};

// By descriptor. Guards are reused and never freed, because another thread may be reading.
enum { page_size = 1024, page_count = 1024 };
static _Atomic(struct guarded *) pages[page_count];

static int reserve;
static void (*_Atomic refused)(int, unsigned, enum cag_reason);
// A spare descriptor. It is closed while a connection is accepted and refused, when no other is left.
static atomic_int spare = -1;

static void keep_spare(void) {
    if (atomic_load(&spare) >= 0) return;
    int made = eventfd(0, EFD_CLOEXEC), none = -1;
    if (made >= 0 && !atomic_compare_exchange_strong(&spare, &none, made)) close(made);
}

void cag_begin(int kept, void (*told)(int, unsigned, enum cag_reason)) {
    reserve = kept;
    atomic_store(&refused, told);
    // Made early, so that its number is low, and below a limit that the program sets later.
    keep_spare();
    see_whether_in_force();
}

static ino_t inode_of(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

static struct guarded *slot(int descriptor) {
    if (descriptor < 0 || descriptor >= page_size * page_count) return NULL;
    struct guarded *page = atomic_load(&pages[descriptor / page_size]);
    return page ? &page[descriptor % page_size] : NULL;
}

bool cag_guard(int listener, int most) {
    if (listener < 0 || listener >= page_size * page_count) return false;
    if (!slot(listener)) {
        struct guarded *made = calloc(page_size, sizeof *made), *none = NULL;
        if (!made) return false;
        if (!atomic_compare_exchange_strong(&pages[listener / page_size], &none, made)) free(made);
    }
    struct guarded *guarded = slot(listener);
    atomic_fetch_add(&guarded->uses, 1);
    guarded->count = 0;
    guarded->most = most;
    guarded->full_at = 0;
    atomic_store(&guarded->inode, inode_of(listener));
    keep_spare();
    return true;
}

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

// Counts a connection. Returns false when the limit is reached. Nobody reports that a connection was closed, so all are
// checked then, but not more often than every few milliseconds.
static bool count_in(struct guarded *guarded, int descriptor) {
    if (guarded->count >= guarded->most && now() - guarded->full_at > 10) {
        int open = 0;
        for (int i = 0; i < guarded->count; i++) {
            struct connection connection = guarded->connections[i];
            if (inode_of(connection.descriptor) == connection.inode) guarded->connections[open++] = connection;
        }
        guarded->count = open;
        guarded->full_at = now();
    }
    if (guarded->count >= guarded->most) return false;
    if (guarded->count == guarded->room) {
        int room = guarded->room ? guarded->room * 2 : 8;
        struct connection *more = realloc(guarded->connections, (size_t)room * sizeof *more);
        if (!more) return false;
        guarded->connections = more;
        guarded->room = room;
    }
    guarded->connections[guarded->count++] = (struct connection){descriptor, inode_of(descriptor)};
    return true;
}

static int refuse(int descriptor, struct ucred peer, enum cag_reason reason) {
    close(descriptor);
    void (*told)(int, unsigned, enum cag_reason) = atomic_load(&refused);
    if (told) told(peer.pid, peer.uid, reason);
    errno = ECONNABORTED;
    return -1;
}

static int guarded_accept(int listener, struct sockaddr *address, socklen_t *size, int flags) {
    struct guarded *guarded = slot(listener);
    ino_t inode = guarded ? atomic_load(&guarded->inode) : 0;
    if (inode == 0 || inode_of(listener) != inode) return call_next(listener, address, size, flags);

    atomic_fetch_add(&guarded->uses, 1);
    int descriptor = call_next(listener, address, size, flags);
    bool used_spare = false;
    if (descriptor < 0 && errno == EMFILE) {
        int given_up = atomic_exchange(&spare, -1);
        if (given_up >= 0) close(given_up);
        used_spare = true;
        descriptor = call_next(listener, address, size, flags);
    }
    if (descriptor < 0) {
        if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) return -1;
        // libzmq aborts the process on any other error. It calls again at once, so wait a moment.
        usleep(1000);
        keep_spare();
        errno = EAGAIN;
        return -1;
    }
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t peer_size = sizeof peer;
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size);
    getrlimit(RLIMIT_NOFILE, &limit);
    // The kernel assigns the lowest free descriptor.
    bool is_in_reserve = used_spare || (rlim_t)descriptor + (rlim_t)reserve >= limit.rlim_cur;
    int result = peer.uid != geteuid()              ? refuse(descriptor, peer, cag_another_user)
                 : is_in_reserve                    ? refuse(descriptor, peer, cag_no_descriptor_left)
                 : !count_in(guarded, descriptor)   ? refuse(descriptor, peer, cag_one_too_many)
                                                    : descriptor;
    int error = errno;
    atomic_fetch_add(&guarded->uses, 1);
    keep_spare();
    errno = error;
    return result;
}

int accept4(int listener, struct sockaddr *address, socklen_t *size, int flags) {
    return guarded_accept(listener, address, size, flags);
}
