// The memory orders of one ring, for GenMC: RingSender and RingReceiver with all executions of the C11 memory model.
// `.ci/model` runs it, and each mutation below once. ring.pml has the rest of the algorithm.
//
// The bytes of a record are no atomics, so GenMC reports a race where an order is missing. A thread that would sleep
// ends instead. The assertions at the end say what must not be when both threads sleep.
//
// Each mutation weakens one order, and GenMC has to find an error:
//   O_PUBLISH=memory_order_relaxed   the comparison of the head
//   O_LOOK=memory_order_relaxed      the receiver's load of the head
//   O_TAKE=memory_order_relaxed      the store of the tail
//   O_ROOM=memory_order_relaxed      the sender's load of the tail
//   O_WISH=memory_order_release      the sender's wish for room
//   NO_FENCE                         no fence before the receiver's last look at the wish

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#ifndef O_PUBLISH
#define O_PUBLISH memory_order_acq_rel
#endif
#ifndef O_LOOK
#define O_LOOK memory_order_acquire
#endif
#ifndef O_TAKE
#define O_TAKE memory_order_release
#endif
#ifndef O_ROOM
#define O_ROOM memory_order_seq_cst
#endif
#ifndef O_WISH
#define O_WISH memory_order_seq_cst
#endif

enum { messages = 3, limit = 1, flags = 3, is_closed = 1, rounds = 3 };

// Offsets count records here.
static atomic_int head = is_closed, tail, room;
static int ring[limit];
static atomic_int bell, room_bell;
static int sent, got;
static int sender_sleeps, receiver_sleeps;

static void *sender(void *unused) {
    int known = 0;
    while (sent < messages) {
        if (sent - known >= limit) known = atomic_load_explicit(&tail, O_ROOM);
        if (sent - known >= limit) {
            atomic_store_explicit(&room_bell, 0, memory_order_relaxed);
            // To be woken when half of what waits was taken.
            atomic_store_explicit(&room, 1 + known + (sent - known + 1) / 2, O_WISH);
            known = atomic_load_explicit(&tail, O_ROOM);
        }
        if (sent - known >= limit) {
            // Sleeps until the bell.
            sender_sleeps = 1;
            return 0;
        }
        ring[sent % limit] = sent + 1;
        int open = sent << 2, closed = sent << 2 | is_closed, next = (sent + 1) << 2;
        int was_open =
            atomic_compare_exchange_strong_explicit(&head, &open, next, O_PUBLISH, memory_order_relaxed);
        // Nobody ends the ring here.
        if (!was_open) atomic_compare_exchange_strong_explicit(&head, &closed, next, O_PUBLISH, memory_order_relaxed);
        sent++;
        if (!was_open) atomic_store_explicit(&bell, 1, memory_order_release);
    }
    return 0;
}

static void ring_sender_if_wanted(void) {
    int wish = atomic_load_explicit(&room, memory_order_seq_cst);
    if (wish == 0 || got < wish - 1) return;
    if (atomic_exchange_explicit(&room, 0, memory_order_seq_cst) != 0)
        atomic_store_explicit(&room_bell, 1, memory_order_release);
}

static void *receiver(void *unused) {
    for (int round = 0; round < rounds; round++) {
        if (!atomic_exchange_explicit(&bell, 0, memory_order_acquire)) {
            receiver_sleeps = 1;
            return 0;
        }
        while (1) {
            while (atomic_load_explicit(&head, O_LOOK) >> 2 != got) {
                assert(ring[got % limit] == got + 1);
                got++;
                atomic_store_explicit(&tail, got, O_TAKE);
                ring_sender_if_wanted();
            }
#ifndef NO_FENCE
            atomic_thread_fence(memory_order_seq_cst);
#endif
            ring_sender_if_wanted();
            int expected = got << 2;
            if (atomic_compare_exchange_strong_explicit(
                    &head, &expected, expected | is_closed, memory_order_seq_cst, memory_order_seq_cst))
                break;
        }
    }
    return 0;
}

int main(void) {
    pthread_t threads[2];
    pthread_create(&threads[0], 0, sender, 0);
    pthread_create(&threads[1], 0, receiver, 0);
    pthread_join(threads[0], 0);
    pthread_join(threads[1], 0);
    if (!receiver_sleeps || atomic_load_explicit(&bell, memory_order_relaxed)) return 0;
    // The receiver sleeps, and nobody has rung.
    assert(got == sent);
    assert(!sender_sleeps || atomic_load_explicit(&room_bell, memory_order_relaxed));
    return 0;
}
