/* One ring: RingSender, RingReceiver and their bell. `.ci/model` runs it, and each mutation below once.

   The model has one sender and one taker, which holds the port's lock whenever it touches the ring. The taker may be
   the borrower of the port, which dies at any step, or stops the ring and takes nothing more. Then the lender stops the
   ring, too, and takes what is left, as its second reader, before it takes what came by other ways. Offsets count
   units, and a message takes one unit or two. Loads and stores of the shared words are single steps. A store that is
   not sequentially consistent first goes into a store buffer of one entry, from which it reaches the memory at any
   later time. The peer does not see the store before. A fence, and an atomic exchange, empty the buffer of the process
   that runs it.

   The model checks:
     - each message that was sent is taken once, and in order, whether by the ring or, after its end, by another way;
     - when nothing moves any more, no message waits and no sender waits for room;
     - the sender never writes over a record that waits, and the receiver never reads what is no record.

   Each mutation removes one thing that the algorithm needs, and Spin has to find an error:
     NO_FENCE        no fence before the last look at the wish for room
     NO_LAST_LOOK    the receiver closes the ring without that look
     WISH_IN_BUFFER  the sender's wish is not sequentially consistent
     NO_LOOK_AGAIN   the sender does not look for room after it has asked
     HEAR_LATE       the sender reads its bell after it has asked
     HEAD_STORED     the sender stores the head, and does not compare it
     CLOSE_STORED    the receiver closes the ring without comparing the head
     END_UNSEEN      the sender does not look at the bit `ended`
     END_ERASED      the sender exchanges the head, and so erases the bit `ended`
     END_ANYWAY      the receiver ends a ring that may have a record
     NOT_OPENED      the end of the sender opens no ring
     NOT_STOPPED     the second reader does not stop the ring
     BELL_UNREAD     the bytes of the receiver's bell are never read
     ROOM_EARLY      the receiver gives the room back before it has copied the record
     NO_GAP          a full ring looks like an empty one */

#ifndef N
#define N 6             /* messages */
#endif
#define SIZE 5          /* units of the ring; at least twice the largest record, and one */
#define SOFT 3          /* the ring begins again there when it can */
#define LIMIT 3         /* records that may wait */
#define FENCE 2         /* takes between two fences */
#define CAPACITY 3      /* bytes for which the bell has room */
#define PATIENCE 2      /* rings after which the bytes are read */
#define WRAP 255

#define need(message) (1 + message % 2)

/* The shared memory. */
byte head = 0; bool closed = true, ended = false;      /* one word */
byte tail = 0, taken = 0;                              /* one word */
bool wanted = false; byte wantedAt = 0;                /* one word */
byte ring[SIZE];                                       /* the message of each unit, 0 for no record */
bool waits[SIZE];                                      /* the units that the receiver needs; for the checks alone */

/* The store buffers: the receiver's for `tail`, the sender's for `wanted`. */
bool hasTail = false; byte newTail = 0, newTaken = 0;
bool hasWish = false; byte newWish = 0;

#define emptyTail() if :: hasTail -> tail = newTail; taken = newTaken; hasTail = false :: else fi
#define emptyWish() if :: hasWish -> wanted = true; wantedAt = newWish; hasWish = false :: else fi

proctype buffers() {
end:
    do
    :: d_step { hasTail -> emptyTail() }
    :: d_step { hasWish -> emptyWish() }
    od
}

/* The bells. An edge wakes the receiver once, whether its byte is read or not. */
bool edge = false; byte bytes = 0;
bool roomRung = false;
inline ring_receiver() { d_step { if :: bytes < CAPACITY -> bytes++; edge = true :: else fi } }

/* Another way to the port, for messages after the end of the ring. */
chan other = [N] of { byte };

byte sent = 0;          /* messages that the sender takes for sent */
byte got = 0;           /* messages that were taken */
bool killed = false;    /* the sender dies at its next step */
bool endEvent = false;  /* the receiver is told that the sender is gone, or sends no more by the ring */
bool sleepsForRoom = false;
bool dies = false;      /* the borrower takes nothing more, from its next step on */
bool stops = false;     /* the borrower stops the ring, and takes nothing more */

/* The sender. */

byte knownTail = 0, knownTaken = 0, sHead = 0, next = 0, records = 0;
bool fits = false, room = false;

inline look_for_room() { d_step { knownTail = tail; knownTaken = taken } }

/* Sets `room`, and `next` to the place of the record. */
inline has_room(size) {
    d_step {
        room = false;
        if
        :: records - knownTaken >= LIMIT
        :: else ->
            if
            :: sHead < knownTail ->
                next = sHead;
#ifdef NO_GAP
                room = (knownTail - sHead >= size)
#else
                room = (knownTail - sHead > size)
#endif
            :: else ->
                fits = (SIZE - sHead > size || SIZE - sHead == size && knownTail > 0);
#ifdef NO_GAP
                if
                :: knownTail >= size && (sHead >= SOFT || !fits) -> next = 0; room = true
#else
                if
                :: knownTail > size && (sHead >= SOFT || !fits) -> next = 0; room = true
#endif
                :: else -> next = sHead; room = fits
                fi
            fi
        fi
    }
}

inline put(at, what) {
    d_step { assert(at < SIZE); assert(!waits[at]); ring[at] = what }
}

inline move_head() { head = newHead; closed = false; ended = false }

inline note_sent() {
    sHead = newHead; sent++; records++;
    waits[next] = true;
    if :: need(message) == 2 -> waits[next + 1] = true :: else fi
}

/* Moves the head in one step, unless the receiver has ended the ring. The first attempt expects an open ring. */
inline publish() {
#ifdef HEAD_STORED
    d_step { emptyWish(); wasClosed = closed; wasEnded = ended };
    d_step { move_head(); if :: !wasEnded -> note_sent() :: else fi }
#else
#ifdef END_UNSEEN
    d_step { emptyWish(); wasClosed = closed; wasEnded = false; move_head(); note_sent() }
#else
#ifdef END_ERASED
    d_step {
        emptyWish(); wasClosed = closed; wasEnded = ended; move_head();
        if :: !wasEnded -> note_sent() :: else fi
    }
#else
    d_step {
        emptyWish(); wasClosed = closed; wasEnded = ended;
        if :: !closed && !ended -> move_head(); note_sent() :: else fi
    };
    if
    :: wasClosed && !wasEnded ->
        d_step {
            wasEnded = ended;
            if :: !ended -> move_head(); note_sent() :: else fi
        }
    :: else
    fi
#endif
#endif
#endif
}

proctype sender() {
    byte message = 1, newHead;
    bool wasClosed, wasEnded, uses = true;
    {
        do
        :: message > N -> break
        :: message <= N && !uses ->
            d_step { other!message; sent++ };
            message++
        :: message <= N && uses ->
            has_room(need(message));
            if
            :: !room -> look_for_room(); has_room(need(message))
            :: else
            fi;
            do
            :: room -> break
            :: else ->
#ifndef HEAR_LATE
                roomRung = false;
#endif
                look_for_room();
                d_step { emptyWish(); hasWish = true; newWish = knownTaken + (records - knownTaken + 1) / 2 };
#ifndef WISH_IN_BUFFER
                d_step { emptyWish() };
#endif
#ifndef NO_LOOK_AGAIN
                look_for_room();
#endif
                if
                :: ended -> uses = false; break
                :: else
                fi;
#ifdef HEAR_LATE
                look_for_room();
                roomRung = false;
#endif
                has_room(need(message));
                if
                :: !room -> sleepsForRoom = true; roomRung -> sleepsForRoom = false
                :: else
                fi
            od;
            if
            :: uses ->
                if
                :: next != sHead -> put(sHead, WRAP)
                :: else
                fi;
                put(next, message);
                if
                :: need(message) == 2 -> put(next + 1, message)
                :: else
                fi;
                newHead = next + need(message);
                if
                :: newHead == SIZE -> newHead = 0
                :: else
                fi;
                publish();
                if
                :: !wasEnded && wasClosed -> ring_receiver()
                :: else
                fi;
                if
                :: !wasEnded -> message++
                :: else -> uses = false
                fi
            :: else
            fi
        od
    } unless { killed -> sleepsForRoom = false; endEvent = true }
}

/* The end: the sender dies at any step, or lives on while the receiver takes it for gone. And that of the borrower. */
proctype fate() {
    if
    :: killed = true
    :: endEvent = true
    :: skip
    fi;
    if
    :: dies = true
    :: stops = true
    :: skip
    fi
}

/* The receiver. */

inline look_at_wish() {
    if
    :: wanted && rTaken >= wantedAt ->
        d_step { emptyTail(); rung = wanted; wanted = false };
        if :: rung -> roomRung = true :: else fi
    :: else
    fi
}

inline give_room() {
    d_step {
        waits[at] = false;
        if :: need(found) == 2 -> waits[at + 1] = false :: else fi;
        rTail = at + need(found);
        if :: rTail == SIZE -> rTail = 0 :: else fi;
        rTaken++;
        emptyTail(); hasTail = true; newTail = rTail; newTaken = rTaken
    }
}

proctype receiver() {
    byte rTail = 0, rHead = 0, rTaken = 0, found, at, unheard = 0;
    bool isOpen = false, isEnding = false, isEnded = false, rung, isDone;
end:
    do
    :: dies || stops -> break
    :: atomic { edge || endEvent || nempty(other) -> skip };
        do
        :: dies || stops -> break
        :: !dies && !stops ->
            /* The bell, and the end. */
            if
            :: edge ->
                d_step {
                    edge = false;
                    if
                    :: !isEnded ->
                        isOpen = true; unheard++;
#ifndef BELL_UNREAD
                        if :: unheard >= PATIENCE -> unheard = 0; bytes = 0 :: else fi
#endif
                    :: else
                    fi
                }
            :: else
            fi;
            if
            :: endEvent ->
                d_step {
                    endEvent = false; isEnding = true;
#ifndef NOT_OPENED
                    if :: !isEnded -> isOpen = true :: else fi
#endif
                }
            :: else
            fi;
            /* The first record. */
            if
            :: isOpen && rTail == rHead -> rHead = head
            :: else
            fi;
            if
            :: isOpen && rTail != rHead ->
                at = rTail;
                found = ring[at];
                if
                :: found == WRAP -> assert(rHead < rTail); rTail = 0
                :: else ->
                    assert(found == got + 1);
#ifdef ROOM_EARLY
                    give_room();
#endif
                    /* The copy, after the size was read. */
                    assert(ring[at] == found);
                    if
                    :: need(found) == 2 -> assert(ring[at + 1] == found)
                    :: else
                    fi;
                    got++;
#ifndef ROOM_EARLY
                    give_room();
#endif
                    if
                    :: rTaken % FENCE == 0 -> d_step { emptyTail() }
                    :: else
                    fi;
                    look_at_wish()
                fi
            :: else ->
                if
                :: nempty(other) -> d_step { other?found; assert(found == got + 1); got++ }
                :: empty(other) && !isOpen -> break
                :: empty(other) && isOpen ->
                    /* Closes or ends the empty ring, and sleeps. */
#ifndef NO_LAST_LOOK
#ifndef NO_FENCE
                    d_step { emptyTail() };
#endif
                    look_at_wish();
#endif
#ifdef CLOSE_STORED
                    isDone = (head == rTail);
                    d_step {
#else
                    d_step {
                        isDone = (head == rTail);
#endif
#ifdef END_ANYWAY
                        if :: isEnding -> isDone = true :: else fi;
#endif
                        emptyTail();
                        if
                        :: isDone && isEnding -> ended = true; isEnded = true; isOpen = false
                        :: isDone && !isEnding -> closed = true; isOpen = false
                        :: else
                        fi
                    }
                fi
            fi
        od
    od;
    skip;
    /* The stores of a process reach the memory before its death is known. */
    d_step { emptyTail(); if :: stops -> ended = true :: else fi };
    /* The lender. */
#ifdef NOT_STOPPED
    d_step { rTail = tail; rHead = head };
#else
    d_step { rTail = tail; rHead = head; ended = true };
#endif
    roomRung = true;
    do
    :: rTail == rHead -> break
    :: rTail != rHead ->
        at = rTail;
        found = ring[at];
        if
        :: found == WRAP -> rTail = 0
        :: else ->
            assert(found == got + 1);
            if
            :: need(found) == 2 -> assert(ring[at + 1] == found)
            :: else
            fi;
            got++;
            d_step {
                waits[at] = false;
                if :: need(found) == 2 -> waits[at + 1] = false :: else fi;
                rTail = at + need(found);
                if :: rTail == SIZE -> rTail = 0 :: else fi
            }
        fi
    od;
end_lender:
    do
    :: d_step { other?found; assert(found == got + 1); got++ }
    od
}

/* When nothing moves any more. */
proctype monitor() {
    timeout -> assert(got == sent); assert(!sleepsForRoom)
}

init { atomic { run buffers(); run sender(); run receiver(); run fate(); run monitor() } }
