/* The remote-free protocol (src/backend/heap.c): two heaps that carve slabs, take blocks of them, collect
 * and retire; two threads that free these blocks, also after the slab is another's.
 *
 * BUG 1: a collector takes the bits before it clears `pending`
 * BUG 2: carving a descriptor anew clears `pending`
 * BUG 3: a collector reads the next slab of its list after it has cleared `pending` */
#define REMOTE
#define SLABS 2
#define HEAPS 2
#define BLOCKS 2
#define FREES 3 /* of all together */
#include "heaps.pml"

byte given, owners_ended, freers_ended;
chan handed = [0] of { byte, byte }; /* a slab, and a block of it that another thread is to free */

/* A slab of the pool's, if there is one. */
inline carve(me) {
    found = SLABS;
    atomic {
        for (s : 0 .. SLABS - 1) {
            if
            ::  slab[s].in_pool && found == SLABS -> slab[s].in_pool = false; found = s
            ::  else
            fi
        }
    }
    if
    ::  found != SLABS ->
        atomic {
            assert(slab[found].owner == NONE && slab[found].remote == 0);
            slab[found].bits = ALL_BLOCKS
        }
#if BUG == 2
        slab[found].pending = 0;
#endif
        lock(me);
        slab[found].owner = me;
        unlock(me)
    ::  else
    fi
}

proctype slab_owner(byte me) {
    byte h, first, at, now, s, found, mask;
    bool ok;
    do
    ::  given < FREES ->
        carve(me);
        lock(me);
        collect(me);
        /* a slab of ours with a free block: it goes back, or somebody gets the block */
        atomic {
            found = SLABS;
            for (s : 0 .. SLABS - 1) {
                if
                ::  slab[s].owner == me && slab[s].bits != 0 -> found = s
                ::  else
                fi
            }
        }
        if
        ::  found == SLABS -> unlock(me)
        ::  found != SLABS && slab[found].bits == ALL_BLOCKS ->
            assert(slab[found].in_use == 0 && slab[found].remote == 0);
            slab[found].owner = NONE;
            unlock(me);
            slab[found].in_pool = true
        ::  found != SLABS && given < FREES ->
            atomic {
                mask = slab[found].bits & -slab[found].bits;
                slab[found].bits = slab[found].bits & ~mask;
                slab[found].in_use = slab[found].in_use | mask;
                given++
            }
            unlock(me);
            handed ! found, mask
        ::  found != SLABS && given >= FREES -> unlock(me)
        fi
    ::  given >= FREES -> break
    od;
    owners_ended++
}

proctype freer() {
    byte h, first, s, mask;
    bool ok;
    do
    ::  handed ? s, mask -> free_remotely(s, mask)
    ::  owners_ended == HEAPS -> break
    od;
    freers_ended++
}

init {
    byte h, first, at, now;
    bool ok;
    atomic {
        slab[0].in_pool = true;
        slab[1].in_pool = true;
        run slab_owner(1);
        run slab_owner(2);
        run freer();
        run freer()
    }
    freers_ended == 2;
    nothing_is_lost()
}
