// The memory orders of LocalQueue, for GenMC: senders and one taker with all executions of the C11 memory model.
// `.ci/model` runs it, and each mutation below once. queue.pml has the rest of the algorithm.
//
// Links and messages are no atomics, so GenMC reports a race where an order is missing. A thread that would sleep ends
// instead. The assertions at the end say what must not be when all threads sleep. Room wakes all senders that wait,
// because queue.pml checks their order.
//
// Each mutation weakens one order, and GenMC has to find an error:
//   O_PUSH=memory_order_relaxed    the exchange that adds a message
//   O_ALL=memory_order_relaxed     the exchange that takes all messages
//   O_CLOSE=memory_order_relaxed   the exchange that closes the list
//   O_COUNT=memory_order_release   the store of the number of taken messages
//   O_ROOM=memory_order_acquire    a sender's load of that number
//   O_WISH=memory_order_release    a sender's wish for room
//   O_WANTED=memory_order_acquire  the taker's load of the wish

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#ifndef O_PUSH
#define O_PUSH memory_order_acq_rel
#endif
#ifndef O_ALL
#define O_ALL memory_order_acquire
#endif
#ifndef O_CLOSE
#define O_CLOSE memory_order_acq_rel
#endif
#ifndef O_COUNT
#define O_COUNT memory_order_seq_cst
#endif
#ifndef O_ROOM
#define O_ROOM memory_order_seq_cst
#endif
#ifndef O_WISH
#define O_WISH memory_order_seq_cst
#endif
#ifndef O_WANTED
#define O_WANTED memory_order_seq_cst
#endif
#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef EACH
#define EACH 1
#endif
#ifndef LIMIT
#define LIMIT 1
#endif

enum { all = SENDERS * EACH, is_closed = 1, rounds = all };

// The newest message times 2, and the flag. A message is a number from 1 on.
static atomic_int newest = is_closed, admitted, taken, wants_room;
static int next[all + 1], content[all + 1];
static atomic_int bell, room_bell;
static int sent[SENDERS], got[SENDERS], count;
static int sleeping_senders[SENDERS], taker_sleeps;

static int admit(void) {
    int seen = atomic_load_explicit(&admitted, memory_order_relaxed);
    do {
        if (seen - atomic_load_explicit(&taken, O_ROOM) >= LIMIT) return 0;
    } while (!atomic_compare_exchange_weak_explicit(
        &admitted, &seen, seen + 1, memory_order_relaxed, memory_order_relaxed));
    return 1;
}

static void *sender(void *argument) {
    int me = (int)(intptr_t)argument;
    while (sent[me] < EACH) {
        if (!admit()) {
            atomic_store_explicit(&wants_room, 1, O_WISH);
            if (!admit()) {
                sleeping_senders[me] = 1;
                return 0;
            }
        }
        int message = 1 + me * EACH + sent[me];
        content[message] = sent[me];
        int former = atomic_load_explicit(&newest, memory_order_relaxed);
        do next[message] = former >> 1;
        while (!atomic_compare_exchange_weak_explicit(&newest, &former, message << 1, O_PUSH, memory_order_relaxed));
        sent[me]++;
        if (former & is_closed) atomic_store_explicit(&bell, 1, memory_order_release);
    }
    return 0;
}

static void take(int message) {
    int from = (message - 1) / EACH;
    assert(content[message] == got[from]);
    got[from]++;
    atomic_store_explicit(&taken, ++count, O_COUNT);
    if (!atomic_load_explicit(&wants_room, O_WANTED)) return;
    if (atomic_load_explicit(&admitted, memory_order_relaxed) - count > LIMIT / 2) return;
    if (atomic_exchange_explicit(&wants_room, 0, memory_order_seq_cst))
        atomic_store_explicit(&room_bell, 1, memory_order_release);
}

static void *taker(void *unused) {
    for (int round = 0; round < rounds; round++) {
        if (!atomic_exchange_explicit(&bell, 0, memory_order_acquire)) {
            taker_sleeps = 1;
            return 0;
        }
        while (1) {
            int message = atomic_load_explicit(&newest, memory_order_relaxed);
            if (message >> 1 == 0) {
                if (message & is_closed) break;
                if (atomic_compare_exchange_strong_explicit(
                        &newest, &message, is_closed, O_CLOSE, memory_order_relaxed))
                    break;
                continue;
            }
            if (!atomic_compare_exchange_strong_explicit(&newest, &message, 0, O_ALL, memory_order_relaxed))
                continue;
            // The chain has the newest message first.
            int oldest = 0;
            for (int rest = message >> 1; rest != 0;) {
                int after = next[rest];
                next[rest] = oldest;
                oldest = rest;
                rest = after;
            }
            for (; oldest != 0; oldest = next[oldest]) take(oldest);
        }
    }
    return 0;
}

int main(void) {
    pthread_t senders[SENDERS], other;
    pthread_create(&other, 0, taker, 0);
    for (int i = 0; i < SENDERS; i++) pthread_create(&senders[i], 0, sender, (void *)(intptr_t)i);
    pthread_join(other, 0);
    for (int i = 0; i < SENDERS; i++) pthread_join(senders[i], 0);
    if (!taker_sleeps || atomic_load_explicit(&bell, memory_order_relaxed)) return 0;
    // The taker sleeps, and nobody has rung.
    for (int i = 0; i < SENDERS; i++) {
        assert(got[i] == sent[i]);
        assert(!sleeping_senders[i] || atomic_load_explicit(&room_bell, memory_order_relaxed));
    }
    return 0;
}
