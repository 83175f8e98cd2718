/* Size classes: the look-up table, the reciprocals, aligned requests and bands, each against its plain definition. */
#include "backend/sizeclass.h"

#include "check.h"

/* The definition: the first class that holds n bytes. */
static unsigned smallest_class(size_t n) {
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++)
        if (hk_classes[cls].size >= n)
            return cls;
    return 0;
}

static void every_size_has_the_smallest_class(void) {
    for (size_t n = 0; n <= HK_MID_MAX; n++) {
        CHECK_EQ(hk_class_of(n), smallest_class(n));
        if (n != 0)
            CHECK_EQ(hk_fixed_class_of(n), smallest_class(n));
    }
}

static void classes_increase_and_fit(void) {
    CHECK_EQ(hk_classes[0].size, 0);
    CHECK_EQ(hk_classes[0].magazine, 0);
    CHECK_EQ(hk_classes[HK_CLASS_FIXED - 1].size, HK_MID_MAX);
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        const hk_class_t *c = &hk_classes[cls];
        size_t slab = c->slices * HK_SLICE;
        CHECK(c->size > hk_classes[cls - 1].size);
        CHECK(cls == 1 || c->size % 16 == 0);
        CHECK(c->blocks >= 1 && c->blocks <= HK_SLAB_MAX_BLOCKS);
        CHECK((size_t)c->blocks * c->size <= slab);
        /* a slab holds as many as fit or as the bitmap can name */
        CHECK(c->blocks == HK_SLAB_MAX_BLOCKS || (size_t)(c->blocks + 1) * c->size > slab);
        CHECK(c->magazine >= 1);
    }
}

static void waste_is_bounded(void) {
    for (size_t n = 1; n <= HK_MID_MAX; n++) {
        size_t size = hk_classes[hk_class_of(n)].size, waste = size - n;
        CHECK(n <= 128 ? waste < 16 : 5 * waste <= size);
    }
}

/* hk_class_index() divides exactly for every offset in a slab, the tail behind the last block included. */
static void index_is_exact(void) {
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        const hk_class_t *c = &hk_classes[cls];
        size_t slab = c->slices * HK_SLICE;
        for (size_t offset = 0; offset < slab; offset++)
            if (HK_UNLIKELY(hk_class_index(c, offset) != offset / c->size))
                CHECK_EQ(hk_class_index(c, offset), offset / c->size);
    }
}

static void aligned_requests(void) {
    for (size_t align = 1; align <= HK_MID_MAX; align *= 2)
        for (size_t n = 0; n <= HK_MID_MAX; n++) {
            const size_t up = hk_size_for_alignment(n, align);
            const size_t multiple = (hk_max(n, 1) + align - 1) / align * align;
            CHECK(up >= n);
            if (up > HK_MID_MAX || align <= 16)
                CHECK_EQ(up, multiple);
            else /* the whole of a fixed class, whatever is learned below it */
                CHECK_EQ(up, hk_classes[smallest_class(multiple)].size);
            if (up <= HK_MID_MAX)
                CHECK_EQ(hk_classes[hk_class_of(up)].size % align, 0);
        }
    CHECK_EQ(hk_size_for_alignment(SIZE_MAX, 16), SIZE_MAX);
    CHECK_EQ(hk_size_for_alignment(1, (size_t)1 << 62), (size_t)1 << 62);
}

static void bands(void) {
    static const size_t most[] = {8, 16, 32, 64, 128, 256, 512, 1024, HK_MID_MAX};
    for (unsigned cls = 1; cls < HK_CLASS_FIXED; cls++) {
        unsigned band = hk_classes[cls].band;
        CHECK(band < sizeof most / sizeof most[0]);
        CHECK(hk_classes[cls].size <= most[band]);
        CHECK(band == 0 || hk_classes[cls].size > most[band - 1]);
    }
}

int main(void) {
    every_size_has_the_smallest_class();
    classes_increase_and_fit();
    waste_is_bounded();
    index_is_exact();
    aligned_requests();
    bands();
    return 0;
}
