#include "config/table.h"
#include "front/magazine.h"

enum { CLASSES = 22 /* the classes of bands C0 to C7, and class 0 */ };

/* The option that says how many blocks each class of a band gets: the band's own or, where that is
 * not set, the one for all bands. */
static unsigned source(unsigned band) {
    unsigned own = HK_OPTION_prewarm_c0 + band;
    return hk_load_relaxed(&hk_origins[own]) >= HK_FROM_PROFILE ? own : HK_OPTION_prewarm_all;
}

static unsigned wanted(unsigned cls) {
    return (unsigned)hk_option_number(source(hk_classes[cls].band));
}

/* What is to be filled gets its room first. Where threads are many, most do little: warm caches for
 * all of them would be most of the process. */
void hk_prewarm(hk_thread_t *thread) {
    if (hk_threads_are_many())
        return;
    for (unsigned cls = 1; cls < CLASSES && hk_option(lean) == 0; cls++)
        hk_magazine_fill(thread, cls, wanted(cls));
    for (unsigned cls = 1; cls < CLASSES && hk_option(tiny_profile) != 0; cls++)
        hk_magazine_reserve(thread, cls, hk_classes[cls].refill);
}

bool hk_prewarm_is_wanted(void) {
    bool wants = hk_option(tiny_profile) != 0;
    for (unsigned cls = 1; cls < CLASSES && hk_option(lean) == 0; cls++)
        wants |= wanted(cls) != 0;
    return wants;
}

/* ---- what cannot be had ---- */

static void say_why(hk_line_t *line, bool magazine, bool budget) {
    hk_line_put(line, "%s%s", magazine ? "a magazine " : "", magazine && budget ? "and " : "");
    if (budget)
        hk_line_put(line, "HAKMEM_TCACHE_KB=%lu ", hk_option(tcache_kb));
    hk_line_str(line, magazine && budget ? "hold no more" : "holds no more");
}

static void warn_if_short(unsigned option) {
    hk_line_t value = {0}, why = {0}, instead = {0};
    bool magazine = false, budget = false;
    size_t left = hk_magazines_budget();
    for (unsigned cls = 1; cls < CLASSES; cls++) {
        const hk_class_t *c = &hk_classes[cls];
        const unsigned blocks = hk_magazine_more(cls, 0, wanted(cls), left);
        left -= (size_t)blocks * c->size;
        if (source(c->band) != option || blocks >= wanted(cls))
            continue;
        bool first = !magazine && !budget;
        *(blocks == c->refill ? &magazine : &budget) = true;
        hk_line_put(&instead, first ? "a thread has %lu blocks of %lu bytes" : ", %lu of %lu",
                    (uint64_t)blocks, (uint64_t)c->size);
    }
    if (!magazine && !budget)
        return;
    hk_option_print(&value, option, hk_option_number(option));
    say_why(&why, magazine, budget);
    hk_config_warn(hk_options[option].env, hk_line_text(&value), hk_line_text(&why),
                   hk_line_text(&instead));
}

void hk_prewarm_check(void) {
    for (unsigned option = HK_OPTION_prewarm_c0;
         option <= HK_OPTION_prewarm_all && hk_option(lean) == 0; option++)
        warn_if_short(option);
}
