#include "front/prewarm.h"

#include "config/config.h"
#include "config/table.h"
#include "front/magazine.h"

enum { BANDS = 8, CLASSES = 22 /* of these bands, and class 0 */ };

/* What a thread's magazines are to be like. */
typedef struct {
    size_t budget; /* left */
    uint16_t capacity[CLASSES], blocks[CLASSES];
} plan_t;

/* The option that says how many blocks there are of each class of a band: its own or, where that is
 * not set, the one for all bands. */
static unsigned source(unsigned band) {
    unsigned own = HK_OPTION_prewarm_c0 + band;
    return hk_load_relaxed(&hk_origins[own]) >= HK_FROM_PROFILE ? own : HK_OPTION_prewarm_all;
}

static unsigned wanted(unsigned cls) {
    return (unsigned)hk_option_number(source(hk_classes[cls].band));
}

static void reserve(plan_t *plan, unsigned cls, unsigned capacity) {
    unsigned more = hk_magazine_more(cls, plan->capacity[cls], capacity, plan->budget);
    plan->capacity[cls] = (uint16_t)(plan->capacity[cls] + more);
    plan->budget -= (size_t)more * hk_classes[cls].size;
}

/* What is to be filled has its room first. */
static void make(plan_t *plan) {
    for (unsigned cls = 1; cls < CLASSES && hk_option(lean) == 0; cls++) {
        reserve(plan, cls, wanted(cls));
        plan->blocks[cls] = (uint16_t)hk_min(wanted(cls), plan->capacity[cls]);
    }
    for (unsigned cls = 1; cls < CLASSES && hk_option(tiny_profile) != 0; cls++)
        reserve(plan, cls, hk_classes[cls].one_way);
}

/* Of many threads most do little: warm caches for all of them would be most of the process. */
void hk_prewarm(hk_thread_t *thread) {
    if ((hk_option(lean) != 0 && hk_option(tiny_profile) == 0) || hk_threads_are_many())
        return;
    plan_t plan = {.budget = hk_magazines_left(thread)};
    for (unsigned cls = 1; cls < CLASSES; cls++)
        plan.capacity[cls] = thread->magazines[cls].capacity;
    make(&plan);
    for (unsigned cls = 1; cls < CLASSES; cls++) {
        hk_magazine_reserve(thread, cls, plan.capacity[cls]);
        hk_magazine_fill(thread, cls, plan.blocks[cls]);
    }
}

/* ---- what cannot be had ---- */

static void say_why(hk_line_t *line, bool magazine, bool budget) {
    hk_line_put(line, "%s%s", magazine ? "a magazine " : "", magazine && budget ? "and " : "");
    if (budget)
        hk_line_put(line, "HAKMEM_TCACHE_KB=%lu ", hk_option(tcache_kb));
    hk_line_str(line, magazine && budget ? "hold no more" : "holds no more");
}

static void warn_if_short(const plan_t *plan, unsigned option) {
    hk_line_t value = {0}, why = {0}, instead = {0};
    bool magazine = false, budget = false;
    for (unsigned cls = 1; cls < CLASSES; cls++) {
        const hk_class_t *c = &hk_classes[cls];
        const unsigned blocks = plan->blocks[cls];
        if (source(c->band) != option || blocks >= wanted(cls))
            continue;
        bool first = !magazine && !budget;
        *(blocks == c->one_way ? &magazine : &budget) = true;
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
    if (hk_option(lean) != 0)
        return;
    plan_t plan = {.budget = hk_magazines_budget()};
    make(&plan);
    for (unsigned option = HK_OPTION_prewarm_c0; option <= HK_OPTION_prewarm_all; option++)
        warn_if_short(&plan, option);
}
