/* The messages inside one process: LocalQueue, its bell, and the senders that wait for room. `.ci/model` runs it, and
   each mutation below once.

   Several senders add to the list, and one taker sleeps on the bell. A change of the list's word, which is a loop
   around a compare-and-exchange, is one step. `taken` and `wantsRoom` are written in two threads that then look at each
   other's word, so each has a store buffer of one entry: a store that is not sequentially consistent reaches the memory
   later.

   The model checks:
     - each message is taken once;
     - when nothing moves any more, the list is empty and no sender waits;
     - the queue never has more messages than its limit.

   Each mutation removes one thing that the algorithm needs, and Spin has to find an error:
     CLOSE_STORED    the taker closes the list without comparing it
     HEAR_LATE       the taker reads the bell after it has closed the list
     NOT_RUNG        the sender that opens the list rings no bell
     RUNG_EARLY      the sender that opens the list rings before it adds its message
     OPEN_EARLY      the list takes messages before there is a bell
     TAKEN_IN_BUFFER the count of taken messages is not sequentially consistent
     WISH_IN_BUFFER  the wish for room is not sequentially consistent
     ASK_LATE        a sender asks for room after its last attempt
     LEAVE_SILENT    the sender that has found room wakes nobody, and asks for no more
     REFUSED_SILENT  a refused sender, which was counted for a moment, wakes nobody
     COUNT_LATE      a sender counts its message in after it has added it */

#ifndef SENDERS
#define SENDERS 2
#endif
#ifndef EACH
#define EACH 2          /* messages of each sender */
#endif
#ifndef LIMIT
#define LIMIT 1
#endif
#define ALL (SENDERS * EACH)

/* The list. A message is its sender's number. */
chan list = [ALL] of { byte };
bool closed = true, refusing = true;
byte admitted = 0, knownTaken = 0, taken = 0;
bool wantsRoom = false, hasWaiters = false;

/* The store buffers. */
bool hasTaken = false; byte newTaken = 0;
bool hasWish = false;

#define emptyTaken() if :: hasTaken -> taken = newTaken; hasTaken = false :: else fi
#define emptyWish() if :: hasWish -> wantsRoom = true; hasWish = false :: else fi

proctype buffers() {
end:
    do
    :: d_step { hasTaken -> emptyTaken() }
    :: d_step { hasWish -> emptyWish() }
    od
}

/* The bell's descriptor, and whether the bell is connected. */
bool bell = false, hasBell = false;

/* The channel, and its lock. */
bool isLocked = false, isFull = false;
chan waiters = [SENDERS] of { byte };
bool isWoken[SENDERS];

inline lock() { atomic { !isLocked -> isLocked = true } }
inline unlock() { isLocked = false }
inline wake_first() {
    d_step {
        if
        :: len(waiters) > 0 -> waiters?<first>; isWoken[first] = true; first = 0
        :: else
        fi
    }
}

byte finished = 0;      /* messages that senders have sent */
byte got[SENDERS];      /* messages that were taken */

/* Counts a message in, unless the queue is full. Sets `room`. */
#ifdef COUNT_LATE
#define count_in() skip
#else
#define count_in() admitted++
#endif
inline admit() {
    d_step {
        room = (admitted - knownTaken < LIMIT);
        if :: room -> count_in() :: else fi
    };
    if
    :: !room ->
        knownTaken = taken;
        d_step {
            room = (admitted - knownTaken < LIMIT);
            if :: room -> count_in() :: else fi
        }
    :: else
    fi
}

/* Adds a counted message. Sets `isAdded`, and `opens` for the sender that has to ring. */
inline add() {
#ifdef RUNG_EARLY
    if :: closed && !refusing -> bell = true :: else fi;
#endif
    d_step {
        isAdded = !refusing; opens = false;
        if
        :: isAdded -> list!me; opens = closed; closed = false; assert(len(list) <= LIMIT)
        :: else
        fi
    };
#ifdef RUNG_EARLY
    opens = false;
#endif
#ifdef COUNT_LATE
    d_step { if :: isAdded -> admitted++ :: else fi }
#else
    d_step { if :: !isAdded -> admitted-- :: else fi }
#endif
}

inline ring() {
#ifdef NOT_RUNG
    skip
#else
    if :: hasBell -> bell = true :: else fi
#endif
}

/* An attempt with the lock. Sets `isAdded`. */
inline try_locked() {
    if :: !hasBell -> hasBell = true; refusing = false :: else fi;
    admit();
    if
    :: room -> add(); if :: isAdded && opens -> ring() :: else fi
    :: else -> isAdded = false
    fi;
    isFull = !isAdded
}

inline ask() {
    hasWish = true;
#ifndef WISH_IN_BUFFER
    d_step { emptyWish() }
#endif
}

proctype sender(byte me) {
    byte count = 0, first;
    bool room, isAdded, opens, isFirst;
    do
    :: count == EACH -> break
    :: else ->
        isAdded = false;
        /* Without the lock. */
        if
        :: !hasWaiters ->
            admit();
            if
            :: room ->
                add();
                if
                :: isAdded && opens -> lock(); ring(); unlock()
                :: isAdded && !opens
                :: else ->
#ifdef REFUSED_SILENT
                    skip
#else
                    wake_first()
#endif
                fi
            :: else
            fi
        :: else
        fi;
        /* With the lock, unless others wait and there is no room. */
        if
        :: !isAdded ->
            lock();
            if :: len(waiters) == 0 || !isFull -> try_locked() :: else fi;
            unlock()
        :: else
        fi;
        /* As a waiter. */
        if
        :: !isAdded ->
            lock(); d_step { waiters!me; hasWaiters = true; isWoken[me] = false }; unlock();
            do
            :: true ->
                lock();
                d_step { waiters?<first>; isFirst = (first == me); first = 0 };
                if
                :: isFirst ->
#ifndef ASK_LATE
                    ask();
#endif
                    try_locked();
#ifdef ASK_LATE
                    ask()
#endif
                :: else
                fi;
                unlock();
                if :: isAdded -> break :: else fi;
                d_step { isWoken[me] -> isWoken[me] = false }
            od;
            lock();
            d_step {
                waiters?<first>; isFirst = (first == me); first = 0;
                waiters??eval(me); hasWaiters = (len(waiters) > 0)
            };
#ifdef LEAVE_SILENT
            isFirst = false;
#endif
            if
            :: isFirst && len(waiters) > 0 ->
                ask();
                if
                :: admitted - taken < LIMIT -> unlock(); wake_first()
                :: else -> isFull = true; unlock()
                fi
            :: else -> unlock()
            fi
        :: else
        fi;
        count++; finished++
    od
}

proctype taker() {
    byte message, first, count = 0;
    bool hasMore, room;
    chan batch = [ALL] of { byte };
end:
    do
    :: bell ->
        do
        :: true ->
            d_step { do :: len(list) > 0 -> list?message; batch!message :: else -> break od; message = 0 };
            if
            :: len(batch) > 0 ->
                do
                :: len(batch) > 0 ->
                    d_step { batch?message; got[message]++; message = 0; count++ };
                    d_step { emptyTaken(); hasTaken = true; newTaken = count };
#ifndef TAKEN_IN_BUFFER
                    d_step { emptyTaken() };
#endif
                    if
                    :: wantsRoom ->
                        if
                        :: admitted - count <= LIMIT / 2 ->
                            d_step { emptyTaken(); room = wantsRoom; wantsRoom = false };
                            if :: room -> wake_first() :: else fi
                        :: else
                        fi
                    :: else
                    fi
                :: else -> break
                od
            :: else ->
#ifndef HEAR_LATE
                bell = false;
#endif
#ifdef CLOSE_STORED
                hasMore = (len(list) > 0);
                d_step { emptyTaken(); if :: !hasMore -> closed = true :: else fi };
#else
                d_step { emptyTaken(); hasMore = (len(list) > 0); if :: !hasMore -> closed = true :: else fi };
#endif
#ifdef HEAR_LATE
                bell = false;
#endif
                if :: !hasMore -> break :: else fi
            fi
        od
    od
}

/* When nothing moves any more. */
proctype monitor() {
    byte i = 0;
    timeout ->
    assert(len(list) == 0);
    assert(len(waiters) == 0);
    assert(finished == ALL);
    do
    :: i < SENDERS -> assert(got[i] == EACH); i++
    :: else -> break
    od
}

init {
    byte i = 0;
    atomic {
#ifdef OPEN_EARLY
        refusing = false;
#endif
        run buffers(); run taker(); run monitor();
        do :: i < SENDERS -> run sender(i); i++ :: else -> break od
    }
}
