/* What is put aside (src/backend/large.c): a thread that may take no lock pushes the block that it frees to a list and sets
 * a flag; whoever frees with locks sees the flag, clears it, and frees what the list has. A free behind the push leaves
 * nothing there.
 *
 * BUG 1: the flag is cleared behind the list
 * BUG 2: the flag is set before the push
 * BUG 3: a push does not look whether the list has changed meanwhile */
#ifndef BUG
#define BUG 0
#endif
#define NONE 0
#define BLOCKS 2 /* from 1 on; a thread for each */
#define FREERS 2
#define FREES 2 /* of each of them */

bool aside;
byte late; /* the first block; NONE */
byte next[BLOCKS + 1];
bool is_free[BLOCKS + 1]; /* ghost */
byte ended;

/* hk_large_put_aside() */
proctype put_aside(byte block) {
    byte first;
    bool ok;
#if BUG == 2
    aside = true;
#endif
    do
    ::  first = late;
        next[block] = first;
#if BUG == 3
        late = block;
        ok = true;
#else
        atomic { ok = late == first; if :: ok -> late = block :: else fi }
#endif
        if
        ::  ok -> break
        ::  else
        fi
    od;
#if BUG != 2
    aside = true;
#endif
    ended++
}

/* hk_large_free_late(), where there is something; `at` is the process's own. */
inline free_late() {
    if
    ::  aside ->
#if BUG != 1
        aside = false;
#endif
        atomic { at = late; late = NONE }
        do
        ::  at == NONE -> break
        ::  else ->
            atomic { assert(!is_free[at]); is_free[at] = true }
            at = next[at]
        od;
#if BUG == 1
        aside = false
#endif
    ::  else
    fi
}

proctype freer() {
    byte at, i;
    for (i : 1 .. FREES) {
        free_late()
    }
    ended++
}

init {
    byte at;
    atomic {
        run put_aside(1);
        run put_aside(2);
        run freer();
        run freer()
    }
    ended == BLOCKS + FREERS;
    free_late();
    assert(is_free[1] && is_free[2])
}
