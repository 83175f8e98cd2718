/* Adoption (src/backend/heap.c): a heap without a thread has a slab. A running thread adopts it, a new
 * thread takes the heap over, a purge looks at the slab, and another thread frees a block of it, all at
 * once. Whoever changes a slab's bits holds its owner's lock.
 *
 * BUG 1: a slab is adopted without the orphan's lock
 * BUG 2: the orphan is unlocked before the slab has its new owner
 * BUG 3: the adopter does not hold its own heap's lock */
#define SLABS 1
#define HEAPS 2
#define BLOCKS 2
#include "heaps.pml"
#define ADOPTER 1
#define ORPHAN 2

bool orphan = true, on_list = true; /* on its owner's list of slabs with free blocks */
byte ended;

inline take_one(s) {
    begin_change(s);
    if
    ::  (slab[s].bits & 1) != 0 -> atomic { slab[s].bits = slab[s].bits & ~1; slab[s].in_use = slab[s].in_use | 1 }
    ::  else
    fi;
    end_change(s)
}

/* hk_heap_take() of a heap that has nothing: adopt(), then on. */
proctype adopter() {
    byte h, first, at, now;
    bool ok, mine;
#if BUG != 3
    lock(ADOPTER);
#endif
    if
    ::  orphan ->
#if BUG != 1
        atomic { mine = heap[ORPHAN].locked == 0; heap[ORPHAN].locked = 1 }
#else
        mine = true;
#endif
        if
        ::  mine ->
            collect(ORPHAN);
            ok = on_list && slab[0].owner == ORPHAN;
            if
            ::  ok ->
                begin_change(0); /* off the orphan's list */
                on_list = false;
                end_change(0);
#if BUG == 2
                unlock(ORPHAN);
#endif
                slab[0].owner = ADOPTER;
                on_list = true;
                drain(0);
                take_one(0)
            ::  else
            fi
#if BUG != 1
#if BUG == 2
            if
            ::  !ok -> unlock(ORPHAN)
            ::  else
            fi
#else
            unlock(ORPHAN)
#endif
#endif
        ::  else
        fi
    ::  else
    fi;
#if BUG != 3
    unlock(ADOPTER);
#endif
    ended++
}

/* A new thread with the orphan's heap: it takes a block, if there is one. */
proctype newcomer() {
    byte h, first, at, now;
    bool ok;
    orphan = false;
    lock(ORPHAN);
    collect(ORPHAN);
    if
    ::  on_list && slab[0].owner == ORPHAN -> take_one(0)
    ::  else
    fi;
    unlock(ORPHAN);
    ended++
}

proctype purge() {
    byte h;
    do
    ::  h = slab[0].owner;
        lock(h);
        if
        ::  slab[0].owner == h -> break
        ::  else -> unlock(h)
        fi
    od;
    begin_change(0);
    end_change(0);
    unlock(h);
    ended++
}

proctype freer() {
    byte h, first;
    bool ok;
    free_remotely(0, 2);
    ended++
}

init {
    byte h, first, at, now;
    bool ok;
    atomic {
        slab[0].owner = ORPHAN;
        slab[0].bits = 1;
        slab[0].in_use = 2;
        run adopter();
        run newcomer();
        run purge();
        run freer()
    }
    ended == 4;
    nothing_is_lost()
}
