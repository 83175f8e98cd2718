#include "front/prewarm.h"

#include "config/config.h"
#include "front/magazine.h"

enum { BANDS = 8 };

/* How many blocks of a band its option asks for or, where that is not set, the one for all
 * bands. */
static unsigned wanted(unsigned band) {
#define OWN(field)                                                                                 \
    { hk_option(field), hk_option_origin(field) >= HK_FROM_PROFILE }
    const struct {
        uint64_t blocks;
        bool set;
    } own[BANDS] = {OWN(prewarm_c0), OWN(prewarm_c1), OWN(prewarm_c2), OWN(prewarm_c3),
                    OWN(prewarm_c4), OWN(prewarm_c5), OWN(prewarm_c6), OWN(prewarm_c7)};
#undef OWN
    return (unsigned)(own[band].set ? own[band].blocks : hk_option(prewarm_all));
}

/* Shares the blocks evenly among the band's classes; the first ones get what is left over. */
static void fill_band(hk_thread_t *thread, unsigned band) {
    unsigned blocks = wanted(band), first = 1, classes = 0;
    while (hk_classes[first].band != band)
        first++;
    while (hk_classes[first + classes].band == band)
        classes++;
    for (unsigned i = 0; i < classes; i++)
        hk_magazine_fill(thread, first + i, blocks / classes + (i < blocks % classes));
}

void hk_prewarm(hk_thread_t *thread) {
    if (hk_option(tiny_profile) != 0)
        for (unsigned cls = 1; hk_classes[cls].band < BANDS; cls++)
            hk_magazine_reserve(thread, cls, hk_classes[cls].magazine);
    for (unsigned band = 0; band < BANDS && hk_option(lean) == 0; band++)
        fill_band(thread, band);
}
