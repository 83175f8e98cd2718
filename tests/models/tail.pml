/* The tail of a large block (src/backend/superslab.h): who purges holds it, and looks then whether the block is there; who frees
 * changes the block's kind, and looks then whether it is held. The system takes no memory that is in use.
 *
 * BUG 1: a free looks before it changes the kind
 * BUG 2: what comes from a stash is a block before its tail is set
 * BUG 3: a purge does not look whether it still holds it
 * BUG 4: a purge looks at the kind before it holds it
 * BUG 5: a block grows into a tail that is held */
#ifndef BUG
#define BUG 0
#endif
#define LIVES 4
#define PURGES 3
#define HELD 1
#define CLEAN 4
#define GONE 8
#define BYTES 16

byte tail;
bool is_large; /* the kind at the run's start */
bool carved;   /* lock: pool */
bool pool;     /* the lock */
bool used;     /* ghost: somebody has something where the tail is, or may have */

inline lock() {
    atomic { !pool -> pool = true }
}

/* run_alloc(): from the stash, or from the pool, where others had the slices meanwhile. */
inline take() {
    if
    ::  stashed ->
#if BUG == 2
        is_large = true;
#endif
        tail = wanted;
        is_large = true
    ::  else ->
        lock();
        atomic { carved = true; used = false }
        tail = 0;
        pool = false;
        is_large = true;
        tail = wanted
    fi;
    used = wanted == 0
}

/* drop_tail() */
inline grow() {
    seen = tail;
    if
#if BUG != 5
    ::  (seen & HELD) != 0 -> skip
#endif
    ::  else ->
        atomic { ok = tail == seen; if :: ok -> tail = 0 :: else fi }
        if :: ok -> used = true :: else fi
    fi
}

inline give() {
    lock();
    assert((tail & HELD) == 0);
    atomic { carved = false; used = true; stashed = false }
    pool = false
}

/* hk_large_free(), and hk_large_free_late() */
inline free() {
    used = false;
#if BUG == 1
    seen = tail;
    is_large = false;
#else
    is_large = false;
    seen = tail;
#endif
    if
    ::  (seen & HELD) != 0 -> (tail & HELD) == 0; give()
    ::  (seen & HELD) == 0 -> give()
    ::  (seen & (HELD | GONE)) == 0 -> stashed = true
    fi
}

proctype owner() {
    byte i, wanted, seen;
    bool ok, stashed;
    for (i : 1 .. LIVES) {
        if :: wanted = 0 :: wanted = BYTES fi;
        take();
        if :: grow() :: skip fi;
        free()
    }
}

/* hk_pool_claim_tails() and what follows it */
proctype purger() {
    byte i, seen;
    bool ok;
    for (i : 1 .. PURGES) {
        lock();
        seen = tail;
        ok = carved && (seen & BYTES) != 0 && (seen & CLEAN) == 0;
#if BUG == 4
        ok = ok && is_large;
#endif
        if
        ::  ok -> atomic { ok = tail == seen; if :: ok -> tail = seen | HELD :: else fi }
        ::  else
        fi;
        if
        ::  ok ->
#if BUG != 4
            ok = is_large;
#endif
#if BUG != 3
            ok = ok && (tail & HELD) != 0;
#endif
            if
            ::  !ok -> atomic { if :: tail == (seen | HELD) -> tail = seen :: else fi }
            ::  else
            fi
        ::  else
        fi;
        pool = false;
        if
        ::  ok ->
            assert(!used); /* from here on the system takes it */
            assert(!used);
            tail = BYTES | CLEAN | GONE
        ::  else
        fi
    }
}

init {
    used = true;
    atomic {
        run owner();
        run purger()
    }
}
