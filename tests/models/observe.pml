/* Observing toggled (src/front/thread.c, hk_front_apply): an option is switched on while a thread gets a
 * record, works, and ends, and the next one takes the record over. A thread goes by a cache of its
 * record, or by its trap where it is observed; whoever toggles points it there through `tc`.
 *
 * BUG 1: a new thread looks at the options before it can be found
 * BUG 2: an ending thread leaves its record without the registry's lock
 * BUG 3: an ending thread lets go of its cache before it has that lock */
#ifndef BUG
#define BUG 0
#endif
#define THREADS 2
#define NOBODY 255
#define NO_CACHE 0
#define CACHE 1
#define TRAP 2

bool registry, observing, orphan = true;
byte tc = NOBODY;          /* of the one record: whose cache pointer may be written to */
byte points_at[THREADS];   /* each thread's own cache pointer */
bool alive[THREADS];       /* ghost: the pointer is there */
byte ended;
byte used_by = NOBODY;     /* ghost: who works on the record */

inline lock() { atomic { !registry -> registry = true } }
inline unlock() { registry = false }

inline plan_locked(me) { points_at[me] = (observing -> TRAP : CACHE) }

inline hit(me) {
    if
    ::  points_at[me] != NO_CACHE ->
        atomic { assert(used_by == NOBODY || used_by == me); used_by = me }
        used_by = NOBODY
    ::  else
    fi
}

proctype thread(byte me) {
    alive[me] = true;
    lock(); /* obtain_record */
    if
    ::  !orphan -> unlock(); goto end /* the other has it: this one would get another */
    ::  else -> orphan = false
    fi;
    unlock();
    points_at[me] = CACHE;
#if BUG == 1
    plan_locked(me);
    lock();
    tc = me;
    unlock();
#else
    lock();
    tc = me;
    plan_locked(me);
    unlock();
#endif
    hit(me);
    hit(me);
    /* thread_ends */
#if BUG == 2
    points_at[me] = NO_CACHE;
    tc = NOBODY;
#elif BUG == 3
    points_at[me] = NO_CACHE;
    lock();
    tc = NOBODY;
#else
    lock();
    points_at[me] = NO_CACHE;
    tc = NOBODY;
#endif
    orphan = true;
#if BUG != 2
    unlock();
#endif
    hit(me); /* the destructors of others */
end:
    alive[me] = false;
    ended++
}

/* An option is set, then all threads are told; after that each goes by what it says. */
proctype toggle() {
    byte who;
    observing = true;
    lock();
    who = tc;
    if
    ::  who != NOBODY ->
        atomic { assert(alive[who]); plan_locked(who) }
    ::  else
    fi;
    unlock();
    atomic {
        who = tc;
        assert(who == NOBODY || registry || points_at[who] == TRAP)
    }
    ended++
}

init {
    atomic {
        run thread(0);
        run thread(1);
        run toggle()
    }
    ended == THREADS + 1
}
