/* hakmem/inline.h repeats the layout that the hit path reads. These assertions keep the copy equal
 * to the original. */
#include "hakmem/inline.h"

#include "front/tcache.h"

#define SAME(ours, theirs)                                                                         \
    _Static_assert(offsetof(hk_tcache_t, ours) == offsetof(struct hak_inline_cache, theirs),       \
                   "a new layout: hakmem/inline.h and the number in its names must follow")

SAME(top, top);
SAME(map, map);
SAME(mask, mask);
SAME(mask_derived, mask_derived);
SAME(limit, limit);
_Static_assert(offsetof(hk_tcache_t, thread) == sizeof(struct hak_inline_cache), "all but that");
_Static_assert((int)HAK_INLINE_KINDS == (int)HK_KIND_COUNT, "one bin each");
_Static_assert((int)HAK_INLINE_MAX == (int)HK_MID_MAX, "what is cached");
_Static_assert((int)HAK_INLINE_SLICE_BITS == HK_SLICE_SHIFT, "what the map is indexed by");
