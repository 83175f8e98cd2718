#include "config/table.h"

const hk_option_row_t hk_options[HK_OPTION_COUNT] = {
#define AT(field) (uint16_t) offsetof(hk_config_t, field)
#define HK_UINT(field, env, value, least, most, unit, level, when, doc)                            \
    {value, least, most, AT(field), HK_TYPE_NUMBER, HK_LEVEL_##level, HK_WHEN_##when,              \
     env,   unit,  "",   doc},
#define HK_WORD(field, env, value, words, level, when, doc)                                        \
    {value, 0, 0, AT(field), HK_TYPE_WORD, HK_LEVEL_##level, HK_WHEN_##when, env, "", words, doc},
#define HK_TEXT(field, env, level, when, doc)                                                      \
    {0, 0, 0, AT(field), HK_TYPE_TEXT, HK_LEVEL_##level, HK_WHEN_##when, env, "", "", doc},
#include "config/options.def"
#undef AT
};

/* Each text fits its field with the final 0 (C drops that silently), and each default is
 * allowed. */
#define FITS(text, member) (sizeof(text) <= sizeof((hk_option_row_t *)0)->member)
#define HK_UINT(field, name, value, lo, hi, of, level, when, text)                                 \
    _Static_assert(FITS(name, env) && FITS(of, unit) && FITS(text, doc), name);                    \
    _Static_assert((value) >= (lo) && (value) <= (hi), name);
#define HK_WORD(field, name, value, list, level, when, text)                                       \
    _Static_assert(FITS(name, env) && FITS(list, words) && FITS(text, doc), name);                 \
    _Static_assert((size_t)(value) < sizeof(list) / 2, name);
#define HK_TEXT(field, name, level, when, text)                                                    \
    _Static_assert(FITS(name, env) && FITS(text, doc), name);
#include "config/options.def"
#undef FITS
_Static_assert(sizeof(hk_config_t) <= UINT16_MAX, "an offset");
_Static_assert(HK_OPTION_COUNT <= UINT8_MAX, "the numbers in hk_profile_value_t");

/* A group's number is that of its first option: after each group the enumeration steps back. */
enum {
#define HK_GROUP(id, title) GROUP_##id, END_OF_##id = GROUP_##id - 1,
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) AT_##field,
#define HK_WORD(field, env, value, words, level, when, doc) AT_##field,
#define HK_TEXT(field, env, level, when, doc) AT_##field,
#include "config/options.def"
};

const char *hk_option_group(unsigned option) {
    switch (option) {
#define HK_GROUP(id, title)                                                                        \
    case GROUP_##id:                                                                               \
        return title;
#include "config/options.def"
    default:
        return NULL;
    }
}

bool hk_option_built(unsigned option) {
    bool observing =
        (option >= GROUP_front && option < GROUP_statistics) || option == HK_OPTION_sections_sample;
    bool recording = option == HK_OPTION_record || option == HK_OPTION_record_mb;
    return !HK_FAST || !(observing || recording);
}

const hk_profile_row_t hk_profiles[HK_PROFILE_COUNT] = {
#define HK_PROFILE(id, older, doc) {HK_PROFILE_##id, HK_PROFILE_##older, doc},
#include "config/profiles.def"
};
const hk_profile_value_t hk_profile_values[HK_VALUE_COUNT] = {
#define HK_VALUE(profile, field, value) {HK_PROFILE_##profile, HK_OPTION_##field, value},
#include "config/profiles.def"
};

/* ---- names ---- */

unsigned hk_option_find(const char *name, size_t len) {
    unsigned i = 0;
    while (i < HK_OPTION_COUNT &&
           (strncmp(hk_options[i].env, name, len) != 0 || hk_options[i].env[len] != '\0'))
        i++;
    return i;
}

enum { LONGEST_WORD = 64 };

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Levenshtein's distance, blind to case, for words up to LONGEST_WORD; longer ones are as far as
 * can be. */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len) {
    if (a_len > LONGEST_WORD || b_len > LONGEST_WORD)
        return LONGEST_WORD;
    unsigned row[LONGEST_WORD + 1];
    for (unsigned j = 0; j <= b_len; j++)
        row[j] = j;
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            unsigned replace = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
            diagonal = row[j];
            row[j] = (unsigned)hk_min(replace, hk_min(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_len];
}

/* Whether the distance is small enough that a user may have meant the word. */
static bool is_near(unsigned far, size_t len) { return far <= hk_max(2, len / 3); }

unsigned hk_option_nearest(const char *name, size_t len) {
    enum { PREFIX = sizeof "HAKMEM_" - 1 }; /* common to all names */
    unsigned nearest = HK_OPTION_COUNT, least = UINT32_MAX;
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++) {
        const size_t known = strlen(hk_options[i].env);
        unsigned far = distance(name, len, hk_options[i].env, known);
        if (far < least && is_near(far, known - PREFIX))
            nearest = i, least = far;
    }
    return nearest;
}

/* ---- values ---- */

bool hk_option_is_valid(unsigned option, uint64_t value) {
    hk_assert(option < HK_OPTION_COUNT && hk_options[option].type != HK_TYPE_TEXT);
    const hk_option_row_t *row = &hk_options[option];
    return row->type == HK_TYPE_WORD ? hk_word_at(row->words, value) != NULL
                                     : value >= row->least && value <= row->most;
}

bool hk_option_parse(unsigned option, const char *text, uint64_t *value) {
    if (hk_options[option].type == HK_TYPE_WORD)
        return hk_word_find(hk_options[option].words, text, strlen(text), value);
    return hk_parse(&text, value) && *text == '\0' && hk_option_is_valid(option, *value);
}

static void say_nearest(hk_line_t *line, const char *words, const char *text) {
    const char *nearest = NULL;
    unsigned least = UINT32_MAX;
    for (const char *word = words; word != NULL; word = hk_word_at(word, 1)) {
        unsigned far = distance(text, strlen(text), word, strcspn(word, "|"));
        if (far < least && is_near(far, strcspn(word, "|")))
            nearest = word, least = far;
    }
    if (nearest != NULL)
        hk_line_put(line, " (the nearest is %.*s)", (int)strcspn(nearest, "|"), nearest);
}

void hk_option_say_allowed(hk_line_t *line, unsigned option, const char *instead_of) {
    hk_assert(option < HK_OPTION_COUNT && hk_options[option].type != HK_TYPE_TEXT);
    const hk_option_row_t *row = &hk_options[option];
    if (row->type != HK_TYPE_WORD) {
        hk_line_put(line, "a whole number from %lu to %lu (%s) is allowed", row->least, row->most,
                    row->unit);
        return;
    }
    hk_line_put(line, "one of %s is allowed", row->words);
    if (row->words[1] != '|') /* not the switch 0|1 */
        say_nearest(line, row->words, instead_of);
}

void hk_option_print(hk_line_t *line, unsigned option, uint64_t value) {
    hk_assert(hk_option_is_valid(option, value));
    const char *word = hk_word_at(hk_options[option].words, value);
    if (hk_options[option].type == HK_TYPE_WORD)
        hk_line_put(line, "%.*s", (int)strcspn(word, "|"), word);
    else
        hk_line_put(line, "%lu", value);
}
