/* Idle threads (src/front/idle.c): the purger sets a thread's trap and, where that has not been sprung when it looks
 * again, holds the thread's gate, gives all blocks of its magazine but the top one back, and leaves NULL in their slots.
 * The thread may be stopped at any step of a hit (src/front/tcache.h), meet the held gate (hk_gate_enter, enter_late), or
 * end, and another thread takes its record over (src/front/thread.c). Beside them a fork (src/front/fork.c), or another
 * thread that switches observing on and off (hk_thread_plan_locked).
 *
 * No block is in two hands and none is lost, also in the child of a fork; nobody waits for ever; only a fork has
 * operations served without locks; no operation that begins with the trap set is a hit; and a thread that is awake and not
 * observed goes by its cache.
 *
 * All accesses are sequentially consistent here: a hit's stores and the trap are seen at once. In the code the second between
 * two looks is for that; here only the looks are two. Slabs are one set of blocks (heaps.pml models those). Whoever is inside
 * changes the magazine in one step, and that nobody else is at it is checked. Signal handlers are left out.
 *
 * BUG 1: the top block is taken as well
 * BUG 2: the first look takes blocks
 * BUG 3: slots keep what was taken out of them
 * BUG 4: the gate is not held
 * BUG 5: the purger does not look whether its trap is still set
 * BUG 6: the purger lets go of the registry before it takes anything
 * BUG 7: a fork's child leaves emptied slots to the record's next thread
 * BUG 8: who finds that the gate has just been opened is served without locks
 * BUG 9: a free without a map of kinds does not look at the trap
 * BUG 10: the awakened thread takes a plan that it has not acted on for one that observes
 * BUG 11: the awakened thread does not look at its plan again */
#ifndef BUG
#define BUG 0
#endif
#define THREADS 2 /* one after the other */
#define OPERATIONS (me == 0 -> 3 : 1)
#define LOOKS 2
#define ROOM 3   /* blocks that the magazine has room for */
#define BLOCKS 4 /* from 1 on; three in the magazine, one with the program */
#define NOBODY 255

#define OUTSIDE 0
#define INSIDE 1
#define HELD 2

#define AWAKE 0
#define TRAPPED 1
#define ROBBED 2

#define NO_CACHE 0
#define CACHE 1
#define TRAP 2

#define OBSERVED 1 /* a plan is new until its thread has acted on it */
#define NEW 2

/* The one record. */
byte slot[ROOM + 1], top, emptied;
byte gate, idle, plan;
byte tc;                 /* lock: registry; whose cache pointer it is */
bool orphan;             /* lock: registry */
byte points_at[THREADS]; /* each thread's own cache pointer */

bool registry, observing, forking, fork_waits;

byte used, free; /* ghost: bits of blocks: the program's, and in their slabs */
bool changing;   /* ghost: the purger takes blocks */
bool a_fork;     /* ghost: there has been one */
byte hits;       /* ghost: that began since the trap was set */
byte ended;

#define BIT(block) (1 << (block))
#define ALL_BLOCKS (BIT(BLOCKS + 1) - 2)

inline lock() { atomic { !registry -> registry = true } }
inline unlock() { registry = false }

/* ---- whose a block is ---- */

/* From the magazine to the program. */
inline becomes_used(p) {
    assert(p != 0 && ((used | free) & BIT(p)) == 0);
    used = used | BIT(p)
}
inline to_magazine(p) {
    assert((used & BIT(p)) != 0);
    used = used & ~BIT(p)
}
inline from_magazine_to_slab(p) {
    assert(p != 0 && ((used | free) & BIT(p)) == 0);
    free = free | BIT(p)
}

/* Each block is in one place; the lowest slots, so many, have been emptied. `i` and `seen` are the process's own. */
inline check_blocks(from) {
    d_step {
        assert((used & free) == 0);
        seen = used | free;
        i = from + 1;
        do
        ::  i > top -> break
        ::  else ->
            assert(slot[i] != 0 && (seen & BIT(slot[i])) == 0);
            seen = seen | BIT(slot[i]);
            i++
        od;
        assert(seen == ALL_BLOCKS);
        i = 0;
        seen = 0
    }
}

/* ---- inside ---- */

/* hk_magazine_close_ranks() */
inline close_ranks() {
    d_step {
        assert(!changing);
        i = emptied + 1;
        do
        ::  i > top -> break
        ::  else -> slot[i - emptied] = slot[i]; i++
        od;
        top = top - emptied;
        emptied = 0;
        i = 0
    }
}

/* hk_idle_over() */
inline over(me) {
    if
    ::  idle == ROBBED -> close_ranks()
    ::  else
    fi;
    idle = AWAKE;
#if BUG == 10 || BUG == 11
    points_at[me] = CACHE;
#if BUG == 10
    seen = plan;
#else
    seen = plan & OBSERVED;
#endif
    if
    ::  seen != 0 -> points_at[me] = TRAP
    ::  else
    fi;
#else
    do
    ::  seen = plan;
        points_at[me] = ((seen & OBSERVED) != 0 -> TRAP : CACHE);
        if
        ::  plan == seen -> break
        ::  else
        fi
    od;
#endif
    seen = 0;
    check_blocks(0)
}

inline enter(me) {
    got = !fork_waits;
    if
    ::  got -> atomic { got = gate == OUTSIDE; if :: got -> gate = INSIDE :: else fi }
    ::  else
    fi;
    if
    ::  got && idle != AWAKE -> over(me)
    ::  else
    fi
}

/* hk_thread_enter(). Who waits tries a bounded number of times; that the bound is needed by nobody is what is shown. */
inline enter_or_not(me) {
    enter(me);
    do
    ::  got -> break
#if BUG == 8
    ::  !got && gate != HELD -> break
    ::  !got && forking -> break
    ::  !got && gate == HELD && !forking -> gate != HELD || forking; enter(me)
#else
    ::  !got && forking -> break
    ::  !got && !forking -> gate != HELD || forking; enter(me)
#endif
    od;
    assert(got || a_fork)
}

/* enter_for_certain() */
inline enter_for_certain(me) {
    do
    ::  enter(me);
        if
        ::  got -> break
        ::  else -> gate == OUTSIDE && !fork_waits
        fi
    od
}

/* settle() */
inline act_on_plan() {
    if
    ::  (plan & NEW) != 0 -> plan = plan & ~NEW
    ::  else
    fi
}

/* hk_magazine_take_or_refill(); up to two blocks come from the slab. */
inline take_inside() {
    d_step {
        assert(!changing);
        if
        ::  top == 0 && free != 0 ->
            i = 1;
            do
            ::  i > BLOCKS || top == 2 -> break
            ::  else ->
                if
                ::  (free & BIT(i)) != 0 -> free = free & ~BIT(i); top++; slot[top] = i
                ::  else
                fi;
                i++
            od;
            i = 0
        ::  else
        fi;
        if
        ::  top != 0 -> becomes_used(slot[top]); top--
        ::  else
        fi
    }
}

/* hk_magazine_give_or_flush(); the oldest one goes back to its slab. */
inline give_inside() {
    d_step {
        assert(!changing);
        if
        ::  top == ROOM ->
            from_magazine_to_slab(slot[1]);
            i = 1;
            do
            ::  i == top -> break
            ::  else -> slot[i] = slot[i + 1]; i++
            od;
            top--;
            i = 0
        ::  else
        fi;
        to_magazine(p);
        top++;
        slot[top] = p
    }
}

/* ---- operations ---- */

inline note_hit(me) {
    if
    ::  points_at[me] == TRAP -> hits++
    ::  else
    fi
}

inline take(me) {
    p = 0;
    if
    ::  points_at[me] == CACHE ->
        t = top;
        p = slot[t];
        if
        ::  p != 0 -> atomic { top = t - 1; becomes_used(p) }
        ::  else
        fi
    ::  else
    fi;
    if
    ::  p == 0 ->
        enter_or_not(me);
        if
        ::  got -> act_on_plan(); take_inside(); gate = OUTSIDE
        ::  else /* from the emergency heap */
        fi
    ::  else
    fi
}

/* The lowest block of those that the program has. */
inline choose() {
    d_step {
        p = 1;
        do
        ::  (used & BIT(p)) != 0 -> break
        ::  else -> p++
        od
    }
}

inline give(me) {
    choose();
#if BUG == 9
    if
    ::  atomic { plan == 0 -> note_hit(me) }
#else
    if
    ::  points_at[me] == CACHE ->
#endif
        t = top;
        if
        ::  t != ROOM -> slot[t + 1] = p; atomic { top = t + 1; to_magazine(p); p = 0 }
        ::  else
        fi
    ::  else
    fi;
    if
    ::  p != 0 ->
        enter_or_not(me);
        if
        ::  got -> act_on_plan(); give_inside(); gate = OUTSIDE
        ::  else -> atomic { used = used & ~BIT(p); free = free | BIT(p) } /* a remote free */
        fi
    ::  else
    fi
}

/* ---- threads ---- */

/* hk_thread_plan_locked() */
inline plan_locked() {
    seen = observing;
    if
    ::  (plan & OBSERVED) != seen -> plan = seen | NEW
    ::  else
    fi;
    if
    ::  tc != NOBODY -> points_at[tc] = (seen -> TRAP : CACHE)
    ::  else
    fi;
    seen = 0
}

/* attach(). Who would have to wait for a fork is served by the shared record; here it comes back later. */
inline begin(me) {
    atomic { orphan && !registry && !forking -> registry = true }
    orphan = false;
    assert(idle == AWAKE && gate == OUTSIDE);
    gate = INSIDE;
    unlock();
    points_at[me] = CACHE;
    lock();
    tc = me;
    plan = 0;
    plan_locked();
    unlock();
    gate = OUTSIDE
}

/* thread_ends(); the magazine is emptied or stays warm. */
inline end(me) {
    enter_for_certain(me);
    act_on_plan();
    if
    ::  true ->
        d_step {
            assert(!changing);
            do
            ::  top == 0 -> break
            ::  else -> from_magazine_to_slab(slot[top]); top--
            od
        }
    ::  true
    fi;
    lock();
    points_at[me] = NO_CACHE;
    tc = NOBODY;
    assert(idle == AWAKE);
    orphan = true;
    gate = OUTSIDE;
    unlock()
}

proctype thread(byte me) {
    byte operation, p, t, i, seen;
    bool got;
    if
    ::  me != 0 -> begin(me)
    ::  else
    fi;
    for (operation : 1 .. OPERATIONS) {
        if
        ::  true -> take(me)
        ::  used != 0 -> give(me)
        fi;
        d_step { p = 0; t = 0; got = false }
        atomic { /* who has the registry may be about to point it elsewhere */
            assert(registry || idle != AWAKE ||
                   (points_at[me] == TRAP) == ((plan & OBSERVED) != 0))
        }
    }
    end(me);
    ended++
}

/* ---- the purger ---- */

/* take_most() and what is noted of it */
inline rob() {
    atomic { assert(hits == 0 && !changing); changing = true }
    n = top;
#if BUG != 1
    if
    ::  n != 0 -> n--
    ::  else
    fi;
#endif
    i = 1;
    do
    ::  i > n -> break
    ::  else ->
        atomic { p = slot[i]; from_magazine_to_slab(p); p = 0 }
#if BUG != 3
        slot[i] = 0;
#endif
        i++
    od;
    atomic { emptied = n; n = 0; i = 0 }
    atomic { idle = ROBBED; changing = false }
}

/* look_at_locked(), whatever the magazine holds */
inline look() {
    lock();
    was = idle;
    atomic { whose = tc; got = was != ROBBED && plan == 0 && whose != NOBODY }
#if BUG != 4
    if
    ::  got -> atomic { got = gate == OUTSIDE; if :: got -> gate = HELD :: else fi }
    ::  else
    fi;
#endif
    if
    ::  got ->
#if BUG == 6
        unlock();
#endif
#if BUG == 2
        got = true;
#elif BUG == 5
        got = was == TRAPPED;
#else
        got = was == TRAPPED && points_at[whose] == TRAP;
#endif
        if
        ::  got -> rob()
        ::  else -> idle = TRAPPED
        fi;
        atomic { points_at[whose] = TRAP; hits = 0 }
#if BUG != 4
        gate = OUTSIDE;
#endif
#if BUG == 6
        lock();
#endif
    ::  else
    fi;
    d_step { got = false; was = 0; whose = 0 }
    unlock()
}

proctype purger() {
    byte turn, was, whose, n, i, p;
    bool got;
    for (turn : 1 .. LOOKS) {
        look()
    }
    ended++
}

/* ---- beside them ---- */

/* What hk_thread_orphan_locked() makes of the record in the child, where the other threads stop as they are. */
inline check_child() {
    atomic {
        assert(!changing);
        if
        ::  idle == ROBBED ->
#if BUG == 7
            check_blocks(0)
#else
            check_blocks(emptied)
#endif
        ::  else -> check_blocks(0)
        fi
    }
}

inline fork() {
    atomic { forking = true; a_fork = true }
    lock();
    do
    ::  got = true;
        if
        ::  !orphan ->
            atomic {
                if
                ::  gate == OUTSIDE -> gate = HELD
                ::  gate == INSIDE -> got = false
                ::  gate == HELD
                fi
            }
        ::  else
        fi;
        if
        ::  got -> break
        ::  else
        fi;
        fork_waits = true;
        unlock();
        gate != INSIDE; /* who looks again and again is taken to look when there is something new */
        lock()
    od;
    fork_waits = false;
    check_child();
    if
    ::  !orphan -> gate = OUTSIDE
    ::  else
    fi;
    forking = false;
    unlock()
}

inline toggle(on) {
    observing = on;
    lock();
    plan_locked();
    unlock()
}

proctype other() {
    byte i, seen;
    bool got;
    if
    ::  true -> fork()
    ::  true -> toggle(true); toggle(false)
    fi;
    ended++
}

init {
    byte i, seen;
    atomic {
        slot[1] = 1;
        slot[2] = 2;
        slot[3] = 3;
        top = 3;
        used = BIT(4);
        points_at[0] = CACHE;
        run thread(0);
        run thread(1);
        run purger();
        run other()
    }
    ended == THREADS + 2;
    assert(idle == AWAKE && tc == NOBODY && gate == OUTSIDE);
    check_blocks(0)
}
