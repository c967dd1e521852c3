// Reports crashes to another process before the program's own crash handler runs.

#define _GNU_SOURCE
#include "CRunLoopShims.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

static const int crash_signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT };

static struct {
    int descriptor;
    pid_t process;
    atomic_flag is_reported;
    struct sigaction former[NSIG];
} crashes = { .is_reported = ATOMIC_FLAG_INIT };

// Calls nothing but functions that are safe in a signal handler. It runs where the former handler would, so that an overflow
// of the stack is reported, too: on the alternate stack.
static void report_crash(int signal, siginfo_t *info, void *context) {
    int error = errno;
    uint64_t value = (uint64_t)signal;
    // A forked child has the descriptor, too. Only the first of several threads writes, because an eventfd adds.
    if (getpid() == crashes.process && !atomic_flag_test_and_set(&crashes.is_reported))
        (void)!write(crashes.descriptor, &value, sizeof value);
    errno = error;
    const struct sigaction *former = &crashes.former[signal];
    if (former->sa_flags & SA_SIGINFO) former->sa_sigaction(signal, info, context);
    else former->sa_handler(signal);
}

void crl_report_crashes(int descriptor) {
    crashes.descriptor = descriptor;
    crashes.process = getpid();
    for (size_t index = 0; index < sizeof crash_signals / sizeof *crash_signals; index++) {
        struct sigaction *former = &crashes.former[crash_signals[index]];
        if (sigaction(crash_signals[index], NULL, former) != 0) continue;
        if (!(former->sa_flags & SA_SIGINFO) && (former->sa_handler == SIG_DFL || former->sa_handler == SIG_IGN)) continue;
        struct sigaction action = *former;
        action.sa_flags |= SA_SIGINFO;
        action.sa_sigaction = report_crash;
        sigaction(crash_signals[index], &action, NULL);
    }
}
