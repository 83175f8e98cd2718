/* Giving back the memory of pages on which no block lives (src/backend/purge.c): the free blocks of a page
 * are claimed under the owner's lock, the system is called without it, and the blocks are put back.
 * Meanwhile the owner takes and gives blocks, another heap adopts the slab, others free blocks, and a slab
 * that is empty is retired and carved anew. Block 0 is on the page that is looked at.
 *
 * BUG 1: the claimed blocks stay free
 * BUG 2: who comes for the owner's lock does not look again who is the owner
 * BUG 3: a slab is retired though blocks of it are claimed */
#define SLABS 1
#define HEAPS 2
#define BLOCKS 2
#include "heaps.pml"

byte ended;

inline lock_owner(s) {
    do
    ::  h = slab[s].owner;
        if
        ::  h == NONE -> break
        ::  else
        fi;
        lock(h);
#if BUG == 2
        break
#else
        if
        ::  slab[s].owner == h -> break
        ::  else -> unlock(h)
        fi
#endif
    od
}

#if BUG == 3
#define IS_EMPTY(s) ((slab[s].bits | slab[s].claimed) == ALL_BLOCKS)
#else
#define IS_EMPTY(s) (slab[s].bits == ALL_BLOCKS)
#endif

/* Under the lock: an empty slab goes. */
inline retire_if_empty(s) {
    if
    ::  IS_EMPTY(s) ->
        assert(slab[s].in_use == 0);
        slab[s].owner = NONE;
        gone = true
    ::  else -> gone = false
    fi
}

proctype purge() {
    byte h;
    bool claimed, gone;
    lock_owner(0);
    if
    ::  h != NONE ->
        begin_change(0);
        atomic {
            claimed = (slab[0].bits & 1) != 0;
            if
            ::  claimed ->
                slab[0].claimed = 1;
#if BUG != 1
                slab[0].bits = slab[0].bits & ~1
#endif
            ::  else
            fi
        }
        end_change(0);
        unlock(h);
        if
        ::  claimed ->
            assert((slab[0].in_use & 1) == 0); /* the system takes the memory now, */
            assert((slab[0].in_use & 1) == 0); /* or a moment later */
            lock_owner(0);
            assert(h != NONE);
            begin_change(0);
            atomic { slab[0].claimed = 0; slab[0].bits = slab[0].bits | 1 }
            end_change(0);
            retire_if_empty(0);
            unlock(h);
            if
            ::  gone -> slab[0].in_pool = true
            ::  else
            fi
        ::  else
        fi
    ::  else
    fi;
    ended++
}

/* The thread of a heap: whatever it finds, it takes it over, takes a block, frees one, or carves. */
proctype thread(byte me; byte other) {
    byte h, first, at, now, turn, mask;
    bool ok, gone;
    for (turn : 1 .. 3) {
        lock(me);
        collect(me);
        if
        ::  slab[0].owner == me && slab[0].bits != 0 -> /* malloc */
            begin_change(0);
            atomic {
                mask = ((slab[0].bits & 1) != 0 -> 1 : 2);
                slab[0].bits = slab[0].bits & ~mask;
                slab[0].in_use = slab[0].in_use | mask
            }
            end_change(0);
            unlock(me)
        ::  slab[0].owner == me && slab[0].in_use != 0 -> /* free */
            begin_change(0);
            atomic {
                mask = ((slab[0].in_use & 1) != 0 -> 1 : slab[0].in_use);
                slab[0].in_use = slab[0].in_use & ~mask;
                slab[0].bits = slab[0].bits | mask
            }
            end_change(0);
            retire_if_empty(0);
            unlock(me);
            if
            ::  gone -> slab[0].in_pool = true
            ::  else
            fi
        ::  slab[0].owner == other && slab[0].in_use != 0 -> /* free for the other heap */
            unlock(me);
            atomic {
                mask = ((slab[0].in_use & 1) != 0 -> 1 : slab[0].in_use);
                ok = mask != 0;
                if
                ::  ok -> set_remote_bit(0, mask)
                ::  else
                fi
            }
            if
            ::  ok -> announce_unless_pending(0)
            ::  else
            fi
        ::  slab[0].owner == other -> /* adopt */
            atomic { ok = heap[other].locked == 0; heap[other].locked = 1 }
            if
            ::  ok ->
                collect(other);
                if
                ::  slab[0].owner == other ->
                    begin_change(0);
                    end_change(0);
                    slab[0].owner = me;
                    drain(0)
                ::  else
                fi;
                unlock(other)
            ::  else
            fi;
            unlock(me)
        ::  else ->
            unlock(me);
            atomic { ok = slab[0].in_pool; slab[0].in_pool = false }
            if
            ::  ok ->
                assert(slab[0].claimed == 0);
                slab[0].bits = ALL_BLOCKS;
                lock(me);
                slab[0].owner = me;
                unlock(me)
            ::  else
            fi
        fi
    }
    ended++
}

init {
    byte h, first, at, now;
    bool ok;
    atomic {
        slab[0].owner = 1;
        slab[0].bits = 1;
        slab[0].in_use = 2;
        run thread(1, 2);
        run thread(2, 1);
        run purge()
    }
    ended == 3;
    nothing_is_lost()
}
