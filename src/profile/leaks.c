#include "profile/leaks.h"

#include <dlfcn.h>

#include "base/report.h"
#include "os/stack.h"
#include "profile/reach.h"
#include "profile/sample.h"

enum { MOST_TOLD = 32 };

typedef struct {
    const hk_profile_stack_t *stack;
    uint64_t objects, bytes; /* at the time of the search */
} leak_t;

static bool has_word(const char *name, const char *words) {
    for (size_t n; name != NULL && *words != '\0'; words += n + (words[n] == ',')) {
        n = strcspn(words, ",");
        if (n != 0 && memmem(name, strlen(name), words, n) != NULL)
            return true;
    }
    return false;
}

static bool is_ignored(const hk_profile_stack_t *s, const char *words) {
    Dl_info info;
    for (unsigned i = 0; i < s->count; i++)
        if (dladdr((char *)s->frames[i] - 1, &info) != 0 &&
            (has_word(info.dli_sname, words) || has_word(info.dli_fname, words)))
            return true;
    return false;
}

/* Finds the largest stacks that are not ignored; looks up names only for a stack that would be
 * among them. Returns how many. */
static unsigned find(leak_t *found, bool unreached, const char *ignored) {
    unsigned count = 0;
    for (const hk_profile_stack_t *s = hk_profile_stacks(); s != NULL; s = s->before) {
        const hk_profile_sums_t *sums = unreached ? &s->unreached : &s->in_use;
        const leak_t one = {s, hk_profile_objects(sums), hk_load_relaxed(&sums->all_bytes)};
        if (hk_load_relaxed(&sums->objects) == 0 ||
            (count == MOST_TOLD && one.bytes <= found[count - 1].bytes) || is_ignored(s, ignored))
            continue;
        unsigned at = count < MOST_TOLD ? count++ : count - 1;
        for (; at != 0 && found[at - 1].bytes < one.bytes; at--)
            found[at] = found[at - 1];
        found[at] = one;
    }
    return count;
}

static void say(uint64_t objects, uint64_t bytes, const char *what) {
    hk_say("hakmem: leaks: %lu byte%s in %lu block%s%s", bytes, bytes == 1 ? "" : "s", objects,
           objects == 1 ? "" : "s", what);
}

bool hk_leaks_report(const char *ignored, bool unreachable) {
    const bool unreached = unreachable && hk_reach_look((uintptr_t)__builtin_frame_address(0));
    leak_t found[MOST_TOLD];
    const unsigned told = find(found, unreached, ignored);
    uint64_t objects = 0, bytes = 0;
    for (unsigned i = 0; i < told; i++) {
        objects += found[i].objects;
        bytes += found[i].bytes;
        say(found[i].objects, found[i].bytes, ", allocated by");
        hk_stack_print(found[i].stack->frames, found[i].stack->count);
    }
    if (told == 0)
        return false;
    hk_line_t line = {0};
    hk_line_put(&line, "%s%s, still in use%s",
                told < MOST_TOLD ? " in all" : " of these stacks, the largest",
                hk_profile_mean() != 0 ? ", estimated from samples" : "",
                unreached     ? ", and nothing that can be reached points there"
                : unreachable ? "; whether anything points there could not be looked at"
                              : "; whether anything points there was not looked at");
    say(objects, bytes, hk_line_text(&line));
    return true;
}
