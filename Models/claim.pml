/* The claim of a name in the registry directory: NameClaim, Sweep, and the control socket of RegistryDirectory.
   `.ci/model` runs it, and each mutation below once.

   Several processes claim one name, which a process that is dead already may have had. Each first sweeps the folders of
   all others, and then listens at its control socket. Then it claims the name. Perhaps it gives the name up, and claims
   it once more. It dies at any step, or lives. When nothing moves any more, one more process claims the name. A call
   that changes or lists a folder, and a connection to a control socket, are single steps.

   The model checks:
     - two living processes never have the name at once, after their calls have returned;
     - nobody removes an entry of another living process;
     - a claim ends after few attempts, and the last one gets the name unless a living process has it;
     - when nothing moves any more, each process that has the name has its entry, and a sweep would find each entry of a
       dead process by the mark in that process's folder.

   Each mutation removes one thing that a claim needs, and Spin has to find an error:
     LISTENS_LATE    a process listens after it has claimed the name
     BORN_IN_PLACE   the control socket has its final name before it listens
     BORN_ONCE       a process does not try again when a sweep has removed its folder
     OWNER_UNASKED   a claimant removes the present entry without asking whether its owner lives
     DEAD_KEPT       a claimant does not remove the entry of a dead owner
     MADE_IN_PLACE   a claimant makes the name's folder in its place, and then writes the entry
     PUT_OVER        a claimant replaces the name's folder, whatever it has
     SAME_FILE       the entries of all ports have the same file name
     REMOVED_WHOLE   the removal of an entry removes the name's folder with all that it has
     SWEPT_ONCE      a sweep does not ask again whether the process lives, when it has listed its files
     LISTED_LATE     a sweep lists the files after it has asked again
     MARK_LATE       the mark is written after the entry is in its place
     MARK_FIRST      the mark is removed before the entry */

#ifndef PROCESSES
#define PROCESSES 2
#endif
#define DEAD 0                      /* has died before the others begin */
#define LAST (PROCESSES + 1)        /* claims when nothing moves any more */
#define COUNT (PROCESSES + 2)
#define MOST (2 * COUNT)            /* attempts of a claim */

bool isDead[COUNT];
bool hasName[COUNT];                /* the call has returned */

/* The name's folder, and the entries in it. */
bool isThere = false;
bool entry[COUNT];

/* The folder of each process: the socket before its final name, and the control socket; the mark of the name; the
   prepared folder, and the entry in it. */
bool folder[COUNT];
bool born[COUNT], control[COUNT];
bool mark[COUNT];
bool prepared[COUNT], preparedEntry[COUNT];
bool listens[COUNT];

#if PROCESSES == 2
#define isEmpty (!entry[0] && !entry[1] && !entry[2] && !entry[3])
#else
#define isEmpty (!entry[0] && !entry[1] && !entry[2] && !entry[3] && !entry[4])
#endif

/* The kernel closes the socket with its process. */
#define isAlive(who) (control[who] && listens[who] && !isDead[who])

hidden byte i;

/* Removes the entry of a port, and the name's folder if it is empty then. */
inline unlink_entry(who) {
    d_step {
#ifdef SAME_FILE
        i = 0;
        do
        :: i < COUNT -> assert(!entry[i] || isDead[i] || i == me); entry[i] = false; i++
        :: else -> break
        od;
        i = 0
#else
        assert(!entry[who] || isDead[who] || who == me);
        entry[who] = false
#endif
    }
}

inline remove_folder() {
    d_step {
#ifdef REMOVED_WHOLE
        i = 0;
        do
        :: i < COUNT -> assert(!entry[i] || isDead[i] || i == me); entry[i] = false; i++
        :: else -> break
        od;
        i = 0;
#endif
        if :: isEmpty -> isThere = false :: else fi
    }
}

/* Sweeps the folder of another process. */
inline list_files(who) {
    hasBorn = born[who]; hasControl = control[who]; hasMark = mark[who]; hasPrepared = prepared[who]
}

inline sweep(who) {
    if
    :: !folder[who] || isAlive(who)
    :: else ->
#ifndef LISTED_LATE
        d_step { list_files(who) };
#endif
#ifdef SWEPT_ONCE
        found = false;
#else
        found = isAlive(who);
#endif
#ifdef LISTED_LATE
        d_step { list_files(who) };
#endif
        if
        :: found
        :: else ->
            /* In any order. */
            do
            :: hasBorn -> d_step { born[who] = false; hasBorn = false }
            :: hasControl -> d_step { control[who] = false; hasControl = false }
            :: hasPrepared ->
                preparedEntry[who] = false;
                d_step { if :: !preparedEntry[who] -> prepared[who] = false :: else fi; hasPrepared = false }
            :: hasMark ->
                unlink_entry(who);
                remove_folder();
                d_step { mark[who] = false; hasMark = false }
            :: else -> break
            od;
            if
            :: d_step {
                !born[who] && !control[who] && !mark[who] && !prepared[who] -> folder[who] = false
            }
            :: else
            fi
        fi;
        d_step { found = false; hasBorn = false; hasControl = false; hasMark = false; hasPrepared = false }
    fi
}

/* Listens at the control socket. A sweep may remove the folder before that. */
inline listen() {
    do
    :: true ->
        folder[me] = true;
#ifdef BORN_IN_PLACE
        if
        :: d_step { folder[me] -> control[me] = true }; listens[me] = true; break
        :: else
        fi
#else
        d_step { if :: folder[me] -> born[me] = true :: else fi };
        if
        :: d_step { born[me] -> born[me] = false; control[me] = true; listens[me] = true }; break
        :: else
        fi
#endif
#ifdef BORN_ONCE
        ; listens[me] = true; break
#endif
    od
}

/* Finds the entry in the name's folder, or NONE. */
#define NONE 255
inline read_entry() {
    do
    :: true ->
        present = NONE;
        atomic {
            if
            :: entry[0] -> present = 0
            :: entry[1] -> present = 1
            :: entry[2] -> present = 2
            :: entry[3] -> present = 3
#if PROCESSES > 2
            :: entry[4] -> present = 4
#endif
            :: else
            fi
        };
        /* The file may be gone by now. */
        if
        :: present == NONE -> break
        :: else -> if :: entry[present] -> break :: else fi
        fi
    od
}

inline prepare() {
#ifndef MARK_LATE
    mark[me] = true;
#endif
    prepared[me] = true;
    preparedEntry[me] = true
}

inline discard_prepared() {
    preparedEntry[me] = false;
    prepared[me] = false;
    mark[me] = false
}

/* Sets `found` when the process has the name then. */
inline claim() {
    tries = 0;
    isPrepared = false;
    do
    :: true ->
        tries++;
        assert(tries <= MOST);
        read_entry();
        if
        :: present == NONE
        :: else ->
#ifndef OWNER_UNASKED
            if
            :: isAlive(present) -> found = false; break
            :: else
            fi;
#endif
#ifndef DEAD_KEPT
            unlink_entry(present);
            remove_folder()
#endif
        fi;
        if
        :: !isPrepared -> prepare(); isPrepared = true
        :: else
        fi;
#ifdef MADE_IN_PLACE
        isThere = true;
        d_step { found = isEmpty };
        if :: found -> d_step { entry[me] = true; prepared[me] = false; preparedEntry[me] = false }; break :: else fi
#else
#ifdef PUT_OVER
        d_step {
            entry[0] = false; entry[1] = false; entry[2] = false; entry[3] = false;
            found = true; isThere = true; entry[me] = true; prepared[me] = false; preparedEntry[me] = false
        };
        break
#else
        d_step {
            assert(prepared[me]);
            found = (!isThere || isEmpty);
            if
            :: found -> isThere = true; entry[me] = true; prepared[me] = false; preparedEntry[me] = false
            :: else
            fi
        };
        if :: found -> break :: else fi
#endif
#endif
    od;
#ifdef MARK_LATE
    if :: found -> mark[me] = true :: else fi;
#endif
    if
    :: !found && isPrepared -> discard_prepared()
    :: else
    fi;
    if
    :: found ->
        atomic {
            found = false;
            hasName[me] = true;
            i = 0;
            do
            :: i < COUNT -> assert(i == me || !hasName[i] || isDead[i]); i++
            :: else -> break
            od;
            i = 0
        }
    :: else
    fi;
    d_step { present = 0; tries = 0; isPrepared = false }
}

inline give_up() {
    hasName[me] = false;
#ifdef MARK_FIRST
    mark[me] = false;
#endif
    unlink_entry(me);
    remove_folder();
    mark[me] = false
}

proctype process(byte me) {
    byte present, tries, other = 0;
    bool found, isPrepared, hasBorn, hasControl, hasMark, hasPrepared, isSecond = false;
    {
        do
        :: other < COUNT ->
            if :: other != me -> sweep(other) :: else fi;
            other++
        :: else -> other = 0; break
        od;
#ifndef LISTENS_LATE
        listen();
#endif
        claim();
#ifdef LISTENS_LATE
        listen();
#endif
        if
        :: hasName[me] && me != LAST -> give_up(); claim()
        :: true
        fi;
        /* It listens on. */
end:
        isDead[me]
    } unless { isDead[me] }
}

/* Dies at any step, or lives. */
proctype fate(byte who) {
    if
    :: isDead[who] = true
    :: skip
    fi
}

proctype monitor() {
    byte j = 1;
    bool isFree = true;
    timeout ->
    do
    :: j <= PROCESSES ->
        if
        :: hasName[j] && !isDead[j] -> isFree = false; assert(isThere && entry[j])
        :: else
        fi;
        j++
    :: else -> break
    od;
    j = 0;
    do
    :: j <= PROCESSES -> assert(!entry[j] || !isDead[j] || mark[j]); j++
    :: else -> break
    od;
    run process(LAST);
    timeout ->
    assert(hasName[LAST] == isFree)
}

init {
    byte j = 1;
    atomic {
        isDead[DEAD] = true;
        /* What the dead process has left. */
        folder[DEAD] = true; control[DEAD] = true; listens[DEAD] = true;
        if
        :: mark[DEAD] = true; isThere = true; entry[DEAD] = true
        :: mark[DEAD] = true; prepared[DEAD] = true; preparedEntry[DEAD] = true
        :: mark[DEAD] = true; isThere = true
        fi;
        run monitor();
        do
        :: j <= PROCESSES -> run process(j); run fate(j); j++
        :: else -> break
        od
    }
}
