/* The move of a port to another process: HandOver, Adoption, FinishingPorts, PortHomes, and the sender's channel.
   `.ci/model` runs it, and each mutation below once.

   One process owns the port, another one claims it, and a third one sends. The sender has rings, or sends by ZeroMQ.
   One owner dies at any step, or both live. The old owner has three threads: its taker, its housekeeping thread, which
   reads the packets of the sender, and the thread of the hand-over. The threads of the sender change its channel under
   one lock, so they are one process here. Each owner can give up its wait for the other one at any step, because of a
   deadline.

   One file in the registry decides the move: the note in `moves`. Either the claimant renames it to `homes`, and has
   the port, or the owner, or the sender that has seen the owner's end, removes it.

   The model checks:
     - each message that was sent is taken once, and in order, unless a process has died with the port;
     - two living processes never have the port at once;
     - when nothing moves any more, one of the two has the port, unless a process has died with it;
     - when nothing moves any more, the sender does not wait, and takes no port for gone that a living process has.

   Each mutation removes one thing that the move needs, and Spin has to find an error:
     NOT_PAUSED      the owner's taker goes on during the hand-over
     NOT_HIDDEN      processes can connect to the owner's socket during the hand-over
     CONTROL_UNREAD  the owner does not read the packets that came before it hid the socket
     NEW_UNTOLD      the owner does not tell a sender that connects during the hand-over
     NOT_PROBED      the sender reports that it has finished without a drain probe behind its last message
     DONE_FOR_GOOD   the owner does not wait for a sender that connects when all others have finished
     SILENT_LEFT     the owner does not wait for a silent sender that sends by ZeroMQ
     RINGS_OPEN      the owner does not stop the rings
     TAKEN_LEFT      the owner does not take the rest of stopped rings
     NOTE_UNMOVED    the claimant writes the home, and does not rename the note
     NOTE_KEPT       the owner keeps the port after an error, and does not remove the note
     DEATH_UNNOTED   the sender that has seen the owner's end does not remove the note
     HOME_READ_ONCE  the sender does not read the home again after it has removed the note
     TOLD_EARLY      the owner tells the sender that the port has left before the claimant has it
     STAY_UNTOLD     the owner does not tell the sender that the port has stayed
     RING_AWAITED    the sender goes on waiting for its ring when the port has stayed
     NOT_SHOWN       processes cannot connect to the socket of a port that has stayed
     PUT_BEHIND      the owner puts the gathered messages behind those that wait when the port has stayed
     COME_BEHIND     the claimant takes messages of the sender before those that have come with the port
     CLOSED_EARLY    the sender closes its ZeroMQ socket, which is not drained, when the port has stayed
     MOVING_LATE     the owner decides under a lock that a sender has to hear of the move, and tells it afterwards */

#ifndef EACH
#define EACH 2          /* messages */
#endif
#ifndef CLAIMS
#define CLAIMS 1
#endif
#define ASKED (2 * CLAIMS + 2)  /* questions for a ring, at most */

bool hasRing = false;   /* whether the sender has rings */

#define OLD 0
#define NEW 1

mtype = { watch, wants, finished, moving, stayed, invalidated, offered, drained,
    begin, complete, failed, ready, taken };

/* The registry: the number of the claim for which there is a note, and of that which has become the port's home. */
byte note = 0, home = 0;

bool isDead[2];

/* Control packets, to the old owner and from it, with the number of a question or a probe. A packet that was sent
   before the death of its process arrives. */
chan up = [8] of { mtype, byte };
chan down = [8] of { mtype, byte };
#define to_owner(packet, number) assert(nfull(up)); up!packet(number)
#define to_sender(packet, number) assert(nfull(down)); down!packet(number)

/* The ways of messages to the old owner. The sender's rings are one ring, because the owner empties a ring before it
   takes from the next one. `ended` has a bit for each ring. ZeroMQ delivers later than the sender sends, and two of its
   connections deliver in any order. A drain probe is PROBE and the count of messages before it. */
chan ring = [EACH] of { byte };
bool ended[ASKED + 1];
chan pipes[2] = [EACH + 1] of { byte };
chan arrived = [EACH + 1] of { byte };
#define PROBE 100

/* The way to the new owner. */
chan newWay = [EACH] of { byte };

/* Messages between the two owners. Each claim has its own ports. */
chan claims = [CLAIMS] of { byte };
chan parts[CLAIMS + 1] = [3] of { mtype };
chan copies[CLAIMS + 1] = [EACH] of { byte };
chan answers[CLAIMS + 1] = [3] of { mtype };

/* What the checks know. */
byte sent = 0;          /* messages that the sender takes for sent */
byte got = 0;           /* messages that were taken */
inline take(m) { assert(m == got + 1); got = m }

/* The old owner. */

bool isPaused = false, isHidden = false, hasLeft = false;
bool watches = false;
chan front = [EACH] of { byte };            /* messages in front of all others */

inline take_frame() {
    if
    :: m > PROBE -> to_sender(drained, m - PROBE)
    :: else -> take(m)
    fi;
    m = 0
}

proctype network() {
    byte m;
end:
    do
    :: atomic { len(pipes[0]) > 0 -> pipes[0]?m; arrived!m; m = 0 }
    :: atomic { len(pipes[1]) > 0 -> pipes[1]?m; arrived!m; m = 0 }
    od
}

proctype taker() {
    byte m;
    {
end:
        do
        :: atomic { !isPaused && !hasLeft && len(front) > 0 -> front?m; take(m); m = 0 }
        :: atomic { !isPaused && !hasLeft && len(front) == 0 && len(ring) > 0 -> ring?m; take(m); m = 0 }
        :: atomic { !isPaused && !hasLeft && len(front) == 0 && len(arrived) > 0 -> arrived?m; take_frame() }
        od
    } unless { isDead[OLD] }
}

/* FinishingPorts. Its lock is held for one step. */
bool finishes = false, tells = false, areDone = false;
bool isAwaited = false, isGivenUp = false;

inline note_done() { if :: !tells && !isAwaited -> areDone = true :: else fi }

/* Tells the sender that the port moves, if it does. */
inline tell_moving() {
    atomic {
        isTold = finishes;
        if
        :: isTold ->
            isAwaited = true;
#ifndef DONE_FOR_GOOD
            areDone = false;
#endif
#ifndef MOVING_LATE
            to_sender(moving, 0); isTold = false
#endif
        :: else
        fi
    };
#ifdef MOVING_LATE
    atomic { if :: isTold -> to_sender(moving, 0); isTold = false :: else fi }
#endif
}

/* The housekeeping thread. */

bool wantsRead = false, isRead = false;

hidden byte place;
inline stop_rings() {
    d_step { place = 1; do :: place <= ASKED -> ended[place] = true; place++ :: else -> break od; place = 0 }
}

/* Handles a packet. The port may leave after the check, and before the sender is told that it moves. */
inline handle() {
    atomic {
        len(up) > 0 -> up?packet(number);
        if
        :: packet == watch -> watches = true; isNew = true
        :: packet == wants ->
            /* A port that moves gives no answer. */
            if
            :: isPaused || hasLeft
            :: else -> stop_rings(); ended[number] = false; to_sender(offered, number)
            fi
        :: packet == finished ->
            isAwaited = false; isGivenUp = false;
            if :: finishes -> note_done() :: else fi
        fi;
        packet = 0; number = 0
    };
    if
    :: atomic {
        isNew ->
        isNew = false;
        if
        :: hasLeft -> if :: watches -> watches = false; to_sender(invalidated, 0) :: else fi
        :: else ->
#ifndef NEW_UNTOLD
            isTold = true
#endif
        fi
    };
        if :: isTold -> tell_moving() :: else fi
    :: else
    fi
}

/* All packets that have come are read, because the hand-over wants that. */
inline see() {
#ifdef CONTROL_UNREAD
    d_step { wantsRead && !isRead -> isRead = true }
#else
    d_step { wantsRead && !isRead && len(up) == 0 -> isRead = true }
#endif
}

/* Gives up a sender that does not read. */
inline give_up() {
    d_step { isAwaited && len(down) > 0 -> isAwaited = false; isGivenUp = true; note_done() }
}

proctype housekeeping() {
    byte number;
    mtype packet;
    bool isNew, isTold;
    {
end:
        do
        :: handle()
        :: see()
        :: give_up()
        od
    } unless { isDead[OLD] }
}

/* The thread of the hand-over. */

chan waiting = [EACH] of { byte };          /* the messages that were gathered */

inline gather_frame() {
    if
    :: m > PROBE -> to_sender(drained, m - PROBE)
    :: else -> waiting!m
    fi
}

/* Takes what waits, and answers drain probes. */
inline gather() {
    atomic {
        do
        :: len(front) > 0 -> front?m; waiting!m
        :: len(front) == 0 && len(ring) > 0 -> ring?m; waiting!m
        :: len(front) == 0 && len(arrived) > 0 -> arrived?m; gather_frame()
        :: else -> break
        od;
        m = 0
    }
}

/* Puts the gathered messages in front of all others, and lets the taker go on. */
inline take_again() {
    d_step {
#ifdef PUT_BEHIND
        do :: len(ring) > 0 -> ring?m; front!m :: else -> break od;
        do :: len(waiting) > 0 -> waiting?m; front!m :: else -> break od;
#else
        do :: len(front) > 0 -> front?m; waiting!m :: else -> break od;
        do :: len(waiting) > 0 -> waiting?m; front!m :: else -> break od;
#endif
        assert(home == 0);
        m = 0; isPaused = false
    }
}

inline tell_left() {
    hasLeft = true;
    atomic { if :: watches -> watches = false; to_sender(invalidated, 0) :: else fi }
}

#define hasArrivals (len(ring) > 0 || len(arrived) > 0)

proctype handOver() {
    byte claim, m;
    bool isTold, isOver;
    {
end:
        do
        :: claims?claim ->
            parts[claim]!begin;
            /* Any wait can end at its deadline. */
            if
            :: atomic { answers[claim]?ready -> isOver = false }
            :: atomic { true -> isOver = true; parts[claim]!failed }
            fi;
            if
            :: atomic { isOver -> isOver = false }
            :: else ->
                d_step {
                    note = claim;
#ifndef NOT_PAUSED
                    isPaused = true
#endif
                };
                d_step {
#ifndef NOT_HIDDEN
                    isHidden = true;
#endif
                    wantsRead = true
                };
                atomic { finishes = true; tells = true; areDone = false };
                if :: watches -> tell_moving() :: else fi;
                atomic { tells = false; note_done() };
                atomic {
                    if
                    :: isRead
                    :: isOver = true
                    fi;
                    wantsRead = false; isRead = false
                };
                do
                :: atomic { isOver -> break }
                :: else ->
                    gather();
                    if
                    :: areDone -> break
                    :: atomic { !areDone && hasArrivals }
                    :: atomic { !areDone -> isOver = true; break }
                    fi
                od;
#ifndef SILENT_LEFT
                do
                :: atomic { isOver || !isGivenUp || hasRing -> break }
                :: !isOver && hasArrivals -> gather()
                :: atomic { !isOver && isGivenUp && !hasRing -> isOver = true; break }
                od;
#endif
                if
                :: isOver
                :: else ->
#ifndef RINGS_OPEN
                    stop_rings();
#endif
#ifndef TAKEN_LEFT
                    gather();
#endif
#ifdef TOLD_EARLY
                    tell_left();
#endif
                    /* What was gathered stays here, too. */
                    atomic {
                        do
                        :: len(copies[claim]) < len(waiting) -> waiting?m; waiting!m; copies[claim]!m
                        :: else -> break
                        od;
                        m = 0;
                        parts[claim]!complete
                    };
                    if
                    :: answers[claim]?taken
                    :: atomic { answers[claim]?failed -> isOver = true }
                    :: isOver = true
                    fi
                fi;
                /* Ends the move, unless the claimant was the first. */
                atomic {
                    if
                    :: isOver ->
#ifdef NOTE_KEPT
                        isOver = (home == 0)
#else
                        isOver = (note == claim); if :: isOver -> note = 0 :: else fi
#endif
                    :: else
                    fi
                };
                if
                :: isOver ->
                    atomic { finishes = false; isOver = false; isAwaited = false; isGivenUp = false };
                    take_again();
#ifndef NOT_SHOWN
                    isHidden = false;
#endif
#ifndef STAY_UNTOLD
                    atomic { if :: watches -> to_sender(stayed, 0) :: else fi };
#endif
                    parts[claim]!failed
                :: else ->
                    tell_left();
                    atomic { finishes = false; isAwaited = false };
                    break
                fi
            fi
        od
    } unless { isDead[OLD] }
}

/* The claimant, and new owner. */

bool hasPort = false;

proctype claimant() {
    byte claim = 1, m;
    bool isTaking = false;
    {
        do
        :: atomic { hasPort || claim > CLAIMS -> break }
        :: else ->
            claims!claim;
            do
            :: atomic { parts[claim]?begin -> isTaking = true; answers[claim]!ready }
            :: atomic {
                parts[claim]?complete ->
#ifdef NOTE_UNMOVED
                home = claim;
#else
                if
                :: note == claim -> note = 0; home = claim
                :: else
                fi;
#endif
                if
                :: home == claim -> assert(isDead[OLD] || isPaused || hasLeft)
                :: else
                fi
                };
                atomic {
                    if
                    :: home == claim -> hasPort = true; answers[claim]!taken
                    :: else -> answers[claim]!failed
                    fi;
                    break
                }
            :: atomic { parts[claim]?failed -> break }
            /* The deadline, or the end of the owner. */
            :: atomic {
                true ->
                if :: isTaking -> answers[claim]!failed :: else fi;
                break
            }
            od;
            atomic { isTaking = false; if :: hasPort :: else -> claim++ fi }
        od;
end:
        do
        :: !hasPort -> break
#ifdef COME_BEHIND
        :: atomic { len(newWay) > 0 -> newWay?m; take(m); m = 0 }
        :: atomic { len(copies[home]) > 0 -> copies[home]?m; take(m); m = 0 }
#else
        :: atomic { len(copies[home]) > 0 -> copies[home]?m; take(m); m = 0 }
        :: atomic { len(copies[home]) == 0 && len(newWay) > 0 -> newWay?m; take(m); m = 0 }
#endif
        od
    } unless { isDead[NEW] }
}

/* The sender. */

mtype = { unconnected, connecting, connected, waits, moved, invalid };
mtype state;

proctype sender() {
    byte number, question = 0, probed = 0, pipe = 0;
    bool isOpen = false, isUp = false, hasAsked = false;
    mtype packet;
    state = unconnected;
end:
    do
    /* The first use, and each after the end of a way. */
    :: atomic {
        state == unconnected && sent < EACH && !hasAsked && !isDead[OLD] -> to_owner(watch, 0); hasAsked = true
    }
    :: atomic {
        state == unconnected && sent < EACH && hasAsked && !isDead[OLD] ->
        state = connecting;
        if
        :: hasRing -> question++; assert(question <= ASKED); to_owner(wants, question)
        :: else -> isOpen = true
        fi
    }
    :: atomic { !hasRing && state == connecting && !isUp && !isHidden && !isDead[OLD] -> isUp = true }
    /* A message. */
    :: atomic {
        hasRing && state == connected && sent < EACH ->
        if
        :: ended[question] -> state = unconnected
        :: else -> sent++; ring!sent
        fi
    }
    :: atomic {
        !hasRing && isUp && (state == connecting || state == connected) && sent < EACH ->
        state = connected; sent++; pipes[pipe]!sent
    }
    :: atomic {
        state == moved && sent < EACH ->
        if
        :: isDead[NEW] -> state = invalid
        :: else -> sent++; newWay!sent
        fi
    }
    /* A packet of the old owner. */
    :: atomic {
        len(down) > 0 -> down?packet(number);
        if
        :: packet == moving ->
            if
            :: state == connecting -> isOpen = false; isUp = false
            :: else
            fi;
            if
            :: state == unconnected || state == connecting || state == connected ->
                state = waits;
#ifdef NOT_PROBED
                to_owner(finished, 0)
#else
                if
                :: !isOpen -> to_owner(finished, 0)
                :: isOpen && probed != PROBE + sent ->
                    probed = PROBE + sent; assert(nfull(pipes[pipe])); pipes[pipe]!probed
                :: else
                fi
#endif
            :: state == moved || state == invalid -> to_owner(finished, 0)
            :: else
            fi
        :: packet == drained ->
            if
            :: isOpen && probed == PROBE + number && sent == number ->
                probed = 0;
                if
                :: state == waits -> isOpen = false; isUp = false; to_owner(finished, 0)
                :: else
                fi
            :: else
            fi
        :: packet == stayed ->
            if
            :: state == waits ->
#ifdef CLOSED_EARLY
                if :: isOpen -> isOpen = false; isUp = false; pipe = 1 - pipe :: else fi;
#endif
                if
                :: isOpen -> state = connected
                :: else -> state = unconnected
                fi
            :: hasRing && state == connecting ->
#ifndef RING_AWAITED
                state = unconnected
#endif
            :: else
            fi
        :: packet == offered ->
            if
            :: state == connecting && number == question -> state = connected
            :: else
            fi
        :: packet == invalidated ->
            hasAsked = false;
            if
            :: state == moved || state == invalid
            :: else -> isOpen = false; isUp = false; state = (home != 0 -> moved : invalid)
            fi
        fi;
        packet = 0; number = 0
    }
    /* The end of the old owner, after its last packet. */
    :: atomic {
        isDead[OLD] && len(down) == 0 && state != moved && state != invalid ->
        isOpen = false; isUp = false
    };
        if
        :: home != 0 -> state = moved
        :: else ->
#ifndef DEATH_UNNOTED
            note = 0;
#endif
#ifdef HOME_READ_ONCE
            state = invalid
#else
            state = (home != 0 -> moved : invalid)
#endif
        fi
    od
}

/* One of the owners dies at any step, or both live. */
proctype fate() {
    if
    :: isDead[OLD] = true
    :: isDead[NEW] = true
    :: skip
    fi
}

/* When nothing moves any more. */
proctype monitor() {
    bool isOld, isNew;
    timeout ->
    isOld = !isDead[OLD] && !hasLeft && !isPaused;
    isNew = !isDead[NEW] && hasPort;
    assert(!isOld || !isNew);
    assert(isOld || isNew || isDead[OLD] || isDead[NEW] && home != 0);
    if
    :: isOld || isNew -> assert(state != invalid && sent == EACH && got == EACH)
    :: else -> assert(state == invalid || sent == EACH)
    fi
}

init {
    atomic {
        stop_rings();
        run network(); run taker(); run housekeeping(); run handOver(); run claimant();
        run fate(); run monitor();
        if :: hasRing = true :: skip fi;
        run sender()
    }
}
