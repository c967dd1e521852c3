#pragma once

#include <stdbool.h>
#include <stdint.h>

// The calls of the C library, of the kernel and of libzmq that a simulated process makes. A program that is linked with
// this has all its code, that of shared libraries too, call the functions here in place of the real ones. On a thread of
// a simulated process they ask the simulator, which defines the functions `sim_…`; on any other thread they do what the
// real ones do.

// Says whether the calling thread is one of a simulated process.
void simulated_set_on(bool is_on);

// Simulated descriptors begin here. Lower ones are real.
enum { simulated_first_descriptor = 100000 };

// A ready entry of an epoll set, and the constants of `epoll_ctl`, which Swift's C library module leaves out.
#include <sys/epoll.h>
typedef struct epoll_event simulated_event;
static inline void simulated_event_set(simulated_event *event, uint32_t events, uint64_t token) {
    event->events = events;
    event->data.u64 = token;
}

// Of all threads only one runs at a time: the one that has the baton. The others have places, where they go on.
typedef struct simulated_place simulated_place;
simulated_place *simulated_place_make(void);
// Notes the caller's place, and goes on at another one. Returns when somebody goes on at the caller's.
void simulated_switch(simulated_place *own, simulated_place *next);

// Makes a thread that never ends, and gives its place, at which the body begins.
bool simulated_start_thread(simulated_place *place, void (*body)(void *), void *argument);

// Closes the real memory behind a simulated descriptor.
void simulated_memory_close(int descriptor);
// Gives a dead process pages of its own, which nobody else sees.
void simulated_memory_detach(void *start, uint64_t size);

// Swift's tasks.
void simulated_tasks_begin(void);
void simulated_job_run(void *job);
// A block that a queue of Dispatch was given. It is released after that.
void simulated_block_run(void *block);

// Makes addresses the same in each run. Returns false when the program has to be executed again for that, and could not.
bool simulated_fix_addresses(char *arguments[], bool are_used);
int simulated_fork(void);
// Keeps the process on one processor.
void simulated_pin(int processor);
int simulated_wait(int pid, int *status, int64_t milliseconds);
void simulated_exit(int status);
// A number that the process shares with those that it forks.
int64_t *simulated_shared_number(void);
// `accept4`, which Swift's C library module leaves out.
int simulated_accept(int listener);
// Lets the standard output have whole lines.
void simulated_set_up_output(void);
