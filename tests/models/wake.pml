/* The purger's sleep (src/policy/purger.c): it looks for what has been freed, and where there is nothing it says that it
 * sleeps, and does unless `noted` has risen since before that look; the system compares once more. Whoever frees raises
 * `noted`, and calls the system only where the purger says so. It never sleeps while something is there to be found.
 *
 * BUG 1: who frees looks whether the purger sleeps before `noted` is raised
 * BUG 2: the purger reads `noted` behind its look
 * BUG 3: the system compares with what `noted` is by then */
#ifndef BUG
#define BUG 0
#endif
#define FREERS 3

byte noted, freed, ended;
bool asleep;    /* what the purger says */
bool in_system; /* where it is */

/* hk_purger_note_slow() */
proctype freer() {
    bool wakes;
    freed++;
#if BUG == 1
    wakes = asleep;
    noted++;
#else
    noted++;
    wakes = asleep;
#endif
    if
    ::  wakes -> in_system = false
    ::  else
    fi;
    ended++
}

proctype purger() {
    byte before, found;
    do
    ::
#if BUG != 2
        before = noted;
#endif
        atomic { found = freed; freed = 0 }
#if BUG == 2
        before = noted;
#endif
        if
        ::  found != 0
        ::  else ->
            asleep = true;
            if
            ::  noted == before ->
#if BUG == 3
                before = noted;
#endif
                in_system = (noted == before);
end_asleep:
                !in_system
            ::  else
            fi;
            asleep = false
        fi
    od
}

init {
    atomic {
        run purger();
        run freer();
        run freer();
        run freer()
    }
    ended == FREERS && freed == 0
}
