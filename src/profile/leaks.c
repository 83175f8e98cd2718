#include "profile/leaks.h"

#include <dlfcn.h>
#include <string.h>

#include "base/report.h"
#include "os/stack.h"
#include "profile/reach.h"
#include "profile/sample.h"

enum { MOST_TOLD = 32 };

static bool unreached_only; /* of the one thread that reports */

static const hk_profile_sums_t *sums_of(const hk_profile_stack_t *s) {
    return unreached_only ? &s->unreached : &s->in_use;
}

static uint64_t bytes_of(const hk_profile_stack_t *s) {
    return hk_load_relaxed(&sums_of(s)->all_bytes);
}

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

/* Which comes first: by bytes, then by age. */
static bool is_before(const hk_profile_stack_t *a, const hk_profile_stack_t *b) {
    return bytes_of(a) != bytes_of(b) ? bytes_of(a) > bytes_of(b) : a < b;
}

/* The first one behind `last`; NULL: there is none. */
static const hk_profile_stack_t *next_of(const hk_profile_stack_t *newest,
                                         const hk_profile_stack_t *last) {
    const hk_profile_stack_t *best = NULL;
    for (const hk_profile_stack_t *s = newest; s != NULL; s = s->before)
        if (hk_load_relaxed(&sums_of(s)->objects) != 0 && (last == NULL || is_before(last, s)) &&
            (best == NULL || is_before(s, best)))
            best = s;
    return best;
}

static void say(uint64_t objects, uint64_t bytes, const char *what) {
    hk_say("hakmem: leaks: %lu byte%s in %lu block%s%s", bytes, bytes == 1 ? "" : "s", objects,
           objects == 1 ? "" : "s", what);
}

bool hk_leaks_report(const char *ignored, bool unreachable) {
    unreached_only = unreachable && hk_reach_look((uintptr_t)__builtin_frame_address(0));
    const hk_profile_stack_t *newest = hk_profile_stacks(), *last = NULL;
    uint64_t told = 0, objects = 0, bytes = 0;
    for (; told < MOST_TOLD && (last = next_of(newest, last)) != NULL;) {
        if (is_ignored(last, ignored))
            continue;
        told++;
        objects += hk_profile_objects(sums_of(last));
        bytes += bytes_of(last);
        say(hk_profile_objects(sums_of(last)), bytes_of(last), ", allocated by");
        hk_stack_print(last->frames, last->count);
    }
    if (told == 0)
        return false;
    hk_line_t line = {0};
    hk_line_put(&line, "%s%s, still in use%s",
                told < MOST_TOLD ? " in all" : " of these stacks, the largest",
                hk_profile_mean() != 0 ? ", estimated from samples" : "",
                unreached_only ? ", and nothing that can be reached points there"
                : unreachable  ? "; whether anything points there could not be looked at"
                               : "; whether anything points there was not looked at");
    say(objects, bytes, hk_line_text(&line));
    return true;
}
