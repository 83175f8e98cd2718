/* A guarded block of a class: what its shadow says, its tail, and what is in it while it is free.
 *
 *   free ── hand out: does it read as zero? ──► out: so many bytes asked for, by whom
 *    ▲                                           │
 *    └── take back: is it out? is the tail whole? cleared
 *
 * The tail is what lies between the bytes that were asked for and the block's end: up to so many bytes
 * have a value that depends on the address and a secret, and none of them is 0. */
#ifndef HK_GUARD_BLOCK_H
#define HK_GUARD_BLOCK_H

#include "base/base.h"
#include "guard/guard.h"

/* The shadow of a block that was there before the guard, in use or free: nothing is known of it. */
enum { HK_BLOCK_EARLY = 8 };

/* The block at p, free and of class cls, is somebody's now: n bytes of it. */
void *hk_block_hand_out(void *p, unsigned cls, size_t n, hk_by_t by);

/* It is freed, by somebody who may know its size. False: a fault was reported, and
 * there is nothing more to do. Any p in a slab of class cls. */
bool hk_block_take_back(void *p, unsigned cls, hk_by_t by, size_t n);

/* The bytes that were asked for; a fault unless the block is out. */
size_t hk_block_bytes(const void *p, unsigned cls);

/* The same, but 0 where it is not out. */
size_t hk_block_known(const void *p, unsigned cls);

/* The block that is out has n bytes now, no more than its class. False: what it had before is in
 * doubt, a fault was reported. */
bool hk_block_resize(void *p, unsigned cls, size_t n);

#endif
