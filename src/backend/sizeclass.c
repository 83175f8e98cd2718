#include "backend/sizeclass.h"

#define BAND(size)                                                                                 \
    ((size) <= 8      ? 0                                                                          \
     : (size) <= 16   ? 1                                                                          \
     : (size) <= 32   ? 2                                                                          \
     : (size) <= 64   ? 3                                                                          \
     : (size) <= 128  ? 4                                                                          \
     : (size) <= 256  ? 5                                                                          \
     : (size) <= 512  ? 6                                                                          \
     : (size) <= 1024 ? 7                                                                          \
                      : 8)

/* What the compiler can see of the promises in sizeclass.h: sizes ascend in steps that the two
 * tables can name, and waste at most 15 bytes or a fifth; ... */
#define SIZES(cls, bytes, before, n)                                                               \
    _Static_assert((cls) >= 1 && (cls) < HK_CLASS_COUNT, "class 0 means none");                    \
    _Static_assert((before) < (bytes) && (bytes) <= HK_MID_MAX, "sizes ascend");                   \
    _Static_assert((bytes) % ((bytes) <= HK_SMALL_MAX ? 8 : 256) == 0, "a table has an entry");    \
    _Static_assert((bytes) <= 8 || (bytes) % 16 == 0, "blocks suit max_align_t");                  \
    _Static_assert((bytes) - (before) <= 16 || ((bytes) - (before)-1) * 5 <= (bytes), "waste");
HK_CLASSES(SIZES)

/* ... a slab's blocks fit into its slices, its bitmaps and, with OS pages of 4 KiB, into one word
 * of pages; its offsets are small enough for hk_class_index(). */
#define FITS(cls, bytes, before, n)                                                                \
    _Static_assert((n) >= 1 && (n)*HK_SLICE / 4096 <= 64, "one word has a bit for each page");     \
    _Static_assert((n)*HK_SLICE / (bytes) >= 1, "a slab holds a block");                           \
    _Static_assert((n)*HK_SLICE * (bytes) < (1ull << 40), "the reciprocal is exact");              \
    _Static_assert(HK_MAGAZINE(bytes) >= 1 && HK_MAGAZINE(bytes) <= 256, "a magazine");
HK_CLASSES(FITS)
_Static_assert(HK_SLAB_MAX_BLOCKS == 64 * 64, "one summary word for all bitmap words");
_Static_assert(HK_SLOT_COUNT <= UINT16_MAX, "first_slot");
_Static_assert(HK_CLASS_COUNT <= UINT8_MAX, "the tables' entries");

#define ENTRY(cls, bytes, before, n)                                                               \
    [cls] = {.reciprocal = ((1ull << 40) + (bytes)-1) / (bytes),                                   \
             .size = (bytes),                                                                      \
             .blocks = HK_CLAMP((n)*65536 / (bytes), 1, HK_SLAB_MAX_BLOCKS),                       \
             .magazine = HK_MAGAZINE(bytes),                                                       \
             .first_slot = HK_SLOTS_OF_##cls,                                                      \
             .slices = (n),                                                                        \
             .band = BAND(bytes)},
const hk_class_t hk_classes[HK_CLASS_COUNT] = {HK_CLASSES(ENTRY)};

/* Entry i serves the sizes above 8*(i-1) up to 8*i; entry 0, for malloc(0), is class 1 as well. */
#define SMALL(cls, bytes, before, n) [((before) + 8) / 8 * ((before) != 0)...(bytes) / 8] = (cls),
const uint8_t hk_class_of_small[HK_SMALL_MAX / 8 + 1] = {HK_CLASSES_SMALL(SMALL)};

/* Entry i serves the sizes above 256*(i-1) up to 256*i; the entries up to 1024 are never read. */
#define MID(cls, bytes, before, n) [(before) / 256 + 1 ...(bytes) / 256] = (cls),
const uint8_t hk_class_of_mid[HK_MID_MAX / 256 + 1] = {HK_CLASSES_MID(MID)};
