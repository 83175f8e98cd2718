/* What the models of the backend share: slabs with blocks as bits, heaps with a lock and a list of slabs
 * that have remote frees, and the steps of src/backend/heap.c. Each statement is one access to shared
 * memory; all of these are sequentially consistent there, as here.
 *
 * A model is compiled with BUG=0, as the code is, and with BUG=1 ..., each a fault that must be found. */

#ifndef BUG
#define BUG 0
#endif

#define NONE 0
#define ALL_BLOCKS ((1 << BLOCKS) - 1)

typedef slab_t {
    byte owner;     /* a heap; NONE */
    bit pending;
    byte next;      /* the next slab on the list, plus 1 */
    byte bits;      /* free; only under the owner's lock */
    byte remote;    /* freed by others */
    byte claimed;   /* neither, while their pages are given back */
    byte in_use;    /* ghost: what the program has */
    bool listed;    /* ghost: on a list of those with remote frees */
    bool changing;  /* ghost: somebody is at the local bits */
    bool in_pool
};

typedef heap_t {
    bit locked;
    byte pending    /* a slab, plus 1; 0: none */
};

slab_t slab[SLABS];
heap_t heap[HEAPS + 1]; /* from 1 on */

inline lock(h) { atomic { heap[h].locked == 0 -> heap[h].locked = 1 } }
inline unlock(h) { heap[h].locked = 0 }

/* ---- the local bits: two steps, so that two who are at them are seen ---- */

inline begin_change(s) { atomic { assert(!slab[s].changing); slab[s].changing = true } }
inline end_change(s) { slab[s].changing = false }

inline drain(s) {
    begin_change(s);
    d_step {
        assert((slab[s].bits & slab[s].remote) == 0);
        slab[s].bits = slab[s].bits | slab[s].remote;
        slab[s].remote = 0
    }
    end_change(s)
}

/* ---- remote frees ---- */

/* The caller has set pending. `h`, `first` and `ok` are the process's own. */
inline announce(s) {
    do
    ::  assert(slab[s].pending == 1);
        h = slab[s].owner;
        if
        ::  h != NONE ->
            first = heap[h].pending;
            do
            ::  slab[s].next = first;
                atomic {
                    ok = heap[h].pending == first;
                    if
                    ::  ok ->
                        assert(!slab[s].listed);
                        slab[s].listed = true;
                        heap[h].pending = s + 1
                    ::  else -> first = heap[h].pending
                    fi
                }
                if
                ::  ok -> break
                ::  else
                fi
            od;
            break
        ::  else ->
            slab[s].pending = 0;
            if
            ::  slab[s].owner == NONE -> break
            ::  else ->
                atomic { ok = slab[s].pending == 0; slab[s].pending = 1 }
                if
                ::  ok
                ::  else -> break
                fi
            fi
        fi
    od
}

inline set_remote_bit(s, mask) {
    atomic {
        assert((slab[s].in_use & mask) == mask && ((slab[s].remote | slab[s].bits) & mask) == 0);
        slab[s].in_use = slab[s].in_use & ~mask;
        slab[s].remote = slab[s].remote | mask
    }
}

inline announce_unless_pending(s) {
    ok = slab[s].pending == 0;
    if
    ::  ok ->
        atomic { ok = slab[s].pending == 0; slab[s].pending = 1 }
        if
        ::  ok -> announce(s)
        ::  else
        fi
    ::  else
    fi
}

inline free_remotely(s, mask) {
    set_remote_bit(s, mask);
    announce_unless_pending(s)
}

/* With the heap `from` locked. `at`, `now` and what announce() needs are the process's own. */
inline collect(from) {
    atomic { at = heap[from].pending; heap[from].pending = 0 }
    do
    ::  at == 0 -> break
    ::  else ->
        now = at - 1;
        atomic {
            assert(slab[now].pending == 1 && slab[now].listed);
            slab[now].listed = false
        }
#if BUG != 3 || !defined(REMOTE)
        at = slab[now].next;
#endif
        if
        ::  slab[now].owner != from -> announce(now)
        ::  else ->
#if BUG == 1 && defined(REMOTE)
            drain(now);
            slab[now].pending = 0
#else
            slab[now].pending = 0;
            drain(now)
#endif
        fi;
#if BUG == 3 && defined(REMOTE)
        at = slab[now].next
#endif
    od
}

/* At the end, when nobody else runs: what was freed is found by collecting alone. (A slab that has
 * changed owners needs a second round.) */
inline nothing_is_lost() {
    byte round, each;
    for (round : 1 .. 2) {
        for (each : 1 .. HEAPS) {
            lock(each);
            collect(each);
            unlock(each)
        }
    }
    for (each : 0 .. SLABS - 1) {
        assert(slab[each].remote == 0 && slab[each].pending == 0 && !slab[each].listed);
        assert(slab[each].claimed == 0 && !slab[each].changing);
        assert(slab[each].in_pool || (slab[each].bits | slab[each].in_use) == ALL_BLOCKS)
    }
}
