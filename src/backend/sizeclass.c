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
