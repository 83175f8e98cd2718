/* A fork (src/front/fork.c): it takes two locks, keeps all others outside the boundary by their gates, and
 * then, inside the C library's fork, takes a lock of the C library's, which another thread may hold while it
 * allocates. One of the others has no record yet. Nobody may wait for ever, and when the process is copied
 * nobody is at anything.
 *
 * BUG 1: the fork keeps the registry's lock while it waits for those who are inside
 * BUG 2: who finds the gate held waits until it opens
 * BUG 3: a thread without a record waits for the registry, whoever forks
 * BUG 4: a gate that was seen open is not held */
#ifndef BUG
#define BUG 0
#endif
#define OUTSIDE 0
#define INSIDE 1
#define HELD 2
#define WORKERS 2
#define TURNS 2

bool shared, registry, heap, streams; /* locks; the last one is the C library's */
bool forking;
byte gate[WORKERS];
bool has_record[WORKERS];
byte inside;                          /* ghost */
bool changing;                        /* ghost: what the registry's lock guards is half changed */

inline lock(l) { atomic { !l -> l = true } }
inline unlock(l) { l = false }
inline lock_unless_forking(l) {
    atomic {
        if
        ::  !l -> l = true; got = true
#if BUG != 3
        ::  l && forking -> got = false
#endif
        fi
    }
}

/* Inside: a heap's lock, or the registry's. */
inline work(me) {
    inside++;
    if
    ::  true -> lock(heap); unlock(heap)
    ::  true -> lock(registry); changing = true; changing = false; unlock(registry)
    fi;
    inside--
}

/* hk_thread_enter() ... hk_thread_leave(); who cannot enter is served without locks. */
inline allocate(me) {
    if
    ::  has_record[me] ->
#if BUG == 2
        atomic { gate[me] == OUTSIDE -> gate[me] = INSIDE; got = true }
#else
        atomic { got = gate[me] == OUTSIDE; if :: got -> gate[me] = INSIDE :: else fi }
#endif
        if
        ::  got -> work(me); gate[me] = OUTSIDE
        ::  else
        fi
    ::  else ->
        lock_unless_forking(registry);
        if
        ::  got ->
            changing = true;
            has_record[me] = true;
            gate[me] = INSIDE;
            changing = false;
            unlock(registry);
            work(me);
            gate[me] = OUTSIDE
        ::  else ->
            lock_unless_forking(shared); /* the record of those who have none */
            if
            ::  got -> unlock(shared)
            ::  else
            fi
        fi
    fi
}

proctype worker(byte me) {
    byte turn;
    bool got;
    for (turn : 1 .. TURNS) {
        if
        ::  true -> allocate(me)
        ::  true -> lock(streams); allocate(me); unlock(streams)
        fi
    }
}

#define IS_INSIDE(i) (has_record[i] && gate[i] == INSIDE)
#define SOMEBODY_INSIDE (IS_INSIDE(0) || IS_INSIDE(1))

proctype forker() {
    byte i;
    bool all_held;
    lock(shared);
    forking = true;
    lock(registry);
    do
    ::  all_held = true;
        for (i : 0 .. WORKERS - 1) {
            atomic {
                if
                ::  has_record[i] && gate[i] == OUTSIDE ->
#if BUG != 4
                    gate[i] = HELD
#endif
                ::  has_record[i] && gate[i] == INSIDE -> all_held = false
                ::  else
                fi
            }
        }
        if
        ::  all_held -> break
        ::  else
        fi;
#if BUG != 1
        unlock(registry);
#endif
        !SOMEBODY_INSIDE; /* who looks again and again is taken to look when there is something new */
#if BUG != 1
        lock(registry)
#endif
    od;
    lock(streams);
    assert(inside == 0 && !heap && !changing); /* the process is copied */
    unlock(streams);
    for (i : 0 .. WORKERS - 1) {
        if
        ::  has_record[i] -> gate[i] = OUTSIDE
        ::  else
        fi
    }
    forking = false;
    unlock(registry);
    unlock(shared)
}

init {
    atomic {
        has_record[0] = true;
        run worker(0);
        run worker(1);
        run forker()
    }
}
