/* The short way of a counted thread (src/front/alone.h): its trap says that its operations are counted and nothing else.
 * A thread that switches counting on and off, and one that starts and stops a watcher, each change, under the registry's
 * lock, what all threads do (hk_alone_look), then the thread's plan (hk_thread_plan_locked), then what its trap says
 * (hk_alone_tell). The thread itself acts on a new plan (settle), and then says so too, without that lock.
 *
 * Once a watcher has been told of, no operation goes the short way; once nothing changes any more, the thread has acted on
 * its plan, and its trap says what is true.
 *
 * All accesses are sequentially consistent, as they are in the code. Signal handlers are left out.
 *
 * BUG 1: the thread does not look again after it has set what its trap says
 * BUG 2: starting a watcher does not change what traps say
 * BUG 3: what all threads do is looked at before the lock is taken
 * BUG 4: a plan that is new to the thread counts as one that it has acted on
 * BUG 5: the thread does not say that it has acted on its plan */
#ifndef BUG
#define BUG 0
#endif
#define SWITCHES 3 /* so that counting is on in the end, and nothing else */
#define WATCHES 2

#define COUNTED 1
#define NEW 2

bool option, watched;           /* what is asked for */
bool alone;                     /* hk_alone: all threads count, and nothing else */
byte plan;                      /* the thread's */
bool counted;                   /* what its trap says */
bool registry;
byte changing = 2;
bool told;                      /* ghost: a watcher runs, and all threads have been told */

#define ALONE (option && !watched)

inline look() {
    is = ALONE;
    alone = is
}

inline tell(again) {
    do
    :: is = alone;
       was = plan;
       counted = is && (BUG == 4 -> (was & COUNTED) != 0 : was == COUNTED);
       if
       :: !(again) || (alone == is && plan == was) -> break
       :: else -> skip
       fi
    od
}

inline visit() {
    if
    :: BUG == 3 -> look()
    :: else -> skip
    fi;
    atomic { !registry -> registry = true };
    if
    :: BUG == 3 -> skip
    :: else -> look()
    fi;
    wanted = option;
    if
    :: wanted != (plan & COUNTED) -> plan = wanted | NEW
    :: else -> skip
    fi;
    tell(true);
    registry = false
}

proctype counts() {
    byte n, was, wanted;
    bool is;
    for (n : 1 .. SWITCHES) {
        option = !option;
        visit()
    }
    changing--
}

proctype watches() {
    byte n, was, wanted;
    bool is;
    for (n : 1 .. WATCHES) {
        told = false;
        watched = !watched;
        if
        :: BUG == 2 -> skip
        :: else -> visit()
        fi;
        told = watched
    }
    changing--
}

inline operation() {
    if
    :: atomic { counted -> assert(!told) }
    :: else ->
        found = plan;
        if
        :: (found & NEW) != 0 ->
            atomic { if :: plan == found -> plan = found & COUNTED :: else -> skip fi };
            if
            :: BUG == 5 -> skip
            :: else -> tell(BUG != 1)
            fi
        :: else -> skip
        fi
    fi
}

proctype thread() {
    byte found, was;
    bool is;
    do
    :: operation()
    :: changing == 0 -> break
    od;
    operation();
    operation();
    assert((plan & NEW) == 0);
    assert((plan == COUNTED) == option);
    assert(counted == ALONE)
}

init {
    atomic {
        run counts();
        run watches();
        run thread()
    }
}
