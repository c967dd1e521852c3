// What the raw sides need from C: libzmq as it is, and what of Linux Swift's Glibc module lacks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <zmq.h>

// An eventfd; -1 with errno.
int cb_event(void);
// An epoll set that holds one descriptor, triggered by its level or by its edges; -1 with errno.
int cb_watch(int descriptor, bool edges);
// Sleeps until a set tells of its descriptor, or so many seconds have passed (-1: for ever); 0, or -1 with errno.
int cb_wait(int set, int seconds);
// An epoll set of many, each with a number: the numbers of those that are ready, and how many; -1 with errno.
int cb_set(void);
int cb_set_add(int set, int descriptor, unsigned number);
int cb_set_wait(int set, unsigned *numbers, int size);

// Binds the calling thread to one CPU for each end (0 or 1) of those that the process started with; any other number
// lets it run on all of them again.
void cb_pin(int end);
// Binds the calling thread to all CPUs but the one of an end.
void cb_pin_beside(int end);
// At its first call on a thread, lets the thread run on all CPUs.
void cb_unpin_new(void);
// The time on CPUs that a process (0: the calling one) has used; 0 if there is none.
double cb_cpu_seconds(pid_t process);
// The bytes of heap in use, in all of malloc's arenas.
size_t cb_heap(void);
// Lets a wait of the calling thread end as soon as its time is over, instead of up to 50 µs later.
void cb_wait_exactly(void);

// Unix sockets that keep packets apart, with as much room as a user may have; -1 with errno.
int cb_packet_listen(const char *path);
int cb_packet_accept(int listener);
int cb_packet_connect(const char *path);
// The largest packet that can be sent.
size_t cb_packet_limit(int socket);
// Sends one packet of two parts; 0, or -1 with errno.
int cb_packet_send(int socket, const void *head, size_t head_size, const void *body, size_t body_size, bool waits);
// Takes a packet that is there; its size, or -1 with errno.
ssize_t cb_packet_receive(int socket, void *buffer, size_t size);
