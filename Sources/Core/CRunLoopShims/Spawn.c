// Starts programs with what posix_spawn does not offer: limits, a death signal, a cgroup.

#define _GNU_SOURCE
#include "CRunLoopShims.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    const crl_program *program;
    int launcher;
    // The step that has failed in the child, and its error. The child shares the launcher's memory until it has its program.
    const char *volatile failed;
    volatile int error;
} start;

static bool fail(start *start, const char *what) {
    start->error = errno;
    start->failed = what;
    return false;
}

// Called in the child. No other thread of the launcher's process may notice anything of it.
// `report` is a descriptor above 3 that stays open, or -1.
static bool prepare(start *start, int report) {
    const crl_program *program = start->program;
    if (program->ends_with_launcher) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return fail(start, "the signal at the launcher's end");
        // The launcher may have ended before.
        if (getppid() != start->launcher) _exit(127);
    }
    struct sigaction action = { .sa_handler = SIG_DFL };
    for (int signal = 1; signal < NSIG; signal++) sigaction(signal, &action, NULL);

    if (program->group == CRL_GROUP_SESSION && setsid() < 0) return fail(start, "a session of its own");
    if (program->group == CRL_GROUP_OWN && setpgid(0, 0) != 0) return fail(start, "a process group of its own");
    if (program->folder && chdir(program->folder) != 0) return fail(start, program->folder);
    if (program->cgroup >= 0 && write(program->cgroup, "0", 1) != 1) return fail(start, "the cgroup");
    if (program->niceness != 0) {
        errno = 0;
        if (nice(program->niceness) == -1 && errno != 0) return fail(start, "the niceness");
    }
    if (!program->may_gain_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return fail(start, "the ban on privileges");

    for (int place = 0; place < 3; place++)
        if (program->standard[place] >= 0 && dup2(program->standard[place], place) < 0)
            return fail(start, "the standard streams");
    int first = program->kept > 0 ? 4 : 3;
    if (program->kept > 0 && dup2(program->kept, 3) < 0) return fail(start, "the descriptor for crashes");
    if (report > first && syscall(SYS_close_range, first, report - 1, 0) != 0)
        return fail(start, "the end of other descriptors");
    if (syscall(SYS_close_range, report > 0 ? report + 1 : first, ~0U, 0) != 0)
        return fail(start, "the end of other descriptors");
    for (int index = 0; index < program->limit_count; index++) {
        struct rlimit limit = { program->limits[index].most, program->limits[index].most };
        if (setrlimit((__rlimit_resource_t)program->limits[index].resource, &limit) != 0)
            return fail(start, program->limits[index].name);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    return true;
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CRL_FORKS 1
#endif
#endif

#ifdef CRL_FORKS
// The thread sanitizer takes a clone for a fork. So this is a fork, and the child reports a failure by a pipe.
static int make_child(start *start) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    // The program may have 3 for itself.
    int writing = fcntl(ends[1], F_DUPFD_CLOEXEC, 4);
    close(ends[1]);
    ends[1] = writing;
    int child = fork();
    if (child == 0) {
        if (prepare(start, ends[1])) {
            execve(start->program->path, start->program->arguments, start->program->environment);
            fail(start, start->program->path);
        }
        struct { int error; const char *failed; } report = { start->error, start->failed };
        _exit(write(ends[1], &report, sizeof report) == sizeof report ? 127 : 126);
    }
    struct { int error; const char *failed; } report;
    close(ends[1]);
    if (child > 0 && read(ends[0], &report, sizeof report) == sizeof report) {
        start->error = report.error;
        start->failed = report.failed;
    }
    close(ends[0]);
    return child;
}
#else
static int run_child(void *context) {
    start *start = context;
    if (prepare(start, -1)) {
        execve(start->program->path, start->program->arguments, start->program->environment);
        fail(start, start->program->path);
    }
    _exit(127);
}

// As `vfork`, and with a stack for the child. It returns when the child has its program or has ended.
static int make_child(start *start) {
    const size_t size = 256 << 10;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED) return -1;
    int child = clone(run_child, stack + size, CLONE_VM | CLONE_VFORK | SIGCHLD, start);
    int error = errno;
    munmap(stack, size);
    errno = error;
    return child;
}
#endif

static int spawn_here(start *start, int *pid) {
    // A handler must not run in the child.
    sigset_t all, former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    start->launcher = getpid();
    int child = make_child(start);
    int error = child < 0 ? errno : start->error;
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (child > 0 && error != 0) while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    *pid = child;
    return error;
}

// The kernel takes the end of the thread that has started a program for the launcher's end. So a thread that lives as long
// as the process starts those that end with it.

static struct {
    pthread_mutex_t callers;
    bool is_made;
    sem_t asked, answered;
    start *start;
    int *pid;
    int error;
} spawner = { .callers = PTHREAD_MUTEX_INITIALIZER };

static void *run_spawner(void *context) {
    (void)context;
    prctl(PR_SET_NAME, "spawner");
    while (true) {
        while (sem_wait(&spawner.asked) != 0) {}
        spawner.error = spawn_here(spawner.start, spawner.pid);
        sem_post(&spawner.answered);
    }
    return NULL;
}

static int make_spawner(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, former;
    sem_init(&spawner.asked, 0, 0);
    sem_init(&spawner.answered, 0, 0);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    int error = pthread_create(&thread, &attributes, run_spawner, NULL);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    pthread_attr_destroy(&attributes);
    spawner.is_made = error == 0;
    return error;
}

static int spawn_for_life(start *start, int *pid) {
    pthread_mutex_lock(&spawner.callers);
    int error = spawner.is_made ? 0 : make_spawner();
    if (error == 0) {
        spawner.start = start;
        spawner.pid = pid;
        sem_post(&spawner.asked);
        while (sem_wait(&spawner.answered) != 0) {}
        error = spawner.error;
    }
    pthread_mutex_unlock(&spawner.callers);
    return error;
}

// Weak, because a simulated machine starts programs of its own.
__attribute__((weak)) int crl_spawn(int *pid, const crl_program *program, const char **failed) {
    start start = { .program = program };
    int error = program->ends_with_launcher ? spawn_for_life(&start, pid) : spawn_here(&start, pid);
    *failed = start.failed;
    return error;
}
