/* Every compile-time switch of the allocator, and nothing else. The default build sets none of
 * them. At most ten may exist; tools/check_switches.py counts them. */
#pragma once

/* 1: assertions, and the walkers that check each struct's equation at every transition. */
#ifndef HK_DEBUG
#define HK_DEBUG 0
#endif

/* 1: tiny magazines and caches, so that every rare path runs all the time. */
#ifndef HK_HOSTILE
#define HK_HOSTILE 0
#endif

/* 1: without the observed front and the timing of sections, so without the trap: no research
 * layers, front metrics, guard, sampled guards, heap profiles or recording. Shows what leaving them
 * out gains. */
#ifndef HK_FAST
#define HK_FAST 0
#endif

/* 1: export only the hak_* names and leave malloc and operator new to another allocator (the
 * sanitizers'). */
#ifndef HK_NO_OVERRIDE
#define HK_NO_OVERRIDE 0
#endif
