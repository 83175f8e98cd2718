#include "config/table.h"

#include <string.h>

const hk_option_row_t hk_options[HK_OPTION_COUNT] = {
#define AT(field) (uint16_t) offsetof(hk_config_t, field)
#define HK_GROUP(id, title)
#define HK_UINT(field, env, value, least, most, unit, level, when, doc)                            \
    {value, least, most, AT(field), HK_TYPE_NUMBER, HK_LEVEL_##level, HK_WHEN_##when,              \
     env,   unit,  "",   doc},
#define HK_WORD(field, env, value, words, level, when, doc)                                        \
    {value, 0, 0, AT(field), HK_TYPE_WORD, HK_LEVEL_##level, HK_WHEN_##when, env, "", words, doc},
#define HK_TEXT(field, env, level, when, doc)                                                      \
    {0, 0, 0, AT(field), HK_TYPE_TEXT, HK_LEVEL_##level, HK_WHEN_##when, env, "", "", doc},
#include "config/options.def"
#undef AT
#undef HK_GROUP
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
};

/* Each text ends within its field of the row (C would cut off the end without a word), and a
 * default is one of the values that are allowed. */
#define FITS(text, member) (sizeof(text) <= sizeof((hk_option_row_t *)0)->member)
#define HK_GROUP(id, title)
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
#undef HK_GROUP
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
_Static_assert(sizeof(hk_config_t) <= UINT16_MAX, "an offset");
_Static_assert(HK_OPTION_COUNT <= UINT8_MAX, "the numbers in hk_profile_value_t");

/* A group's number is that of its first option: the enumeration steps back after each. */
enum {
#define HK_GROUP(id, title) GROUP_##id, END_OF_##id = GROUP_##id - 1,
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) AT_##field,
#define HK_WORD(field, env, value, words, level, when, doc) AT_##field,
#define HK_TEXT(field, env, level, when, doc) AT_##field,
#include "config/options.def"
#undef HK_GROUP
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
};

const char *hk_option_group(unsigned option) {
    switch (option) {
#define HK_GROUP(id, title)                                                                        \
    case GROUP_##id:                                                                               \
        return title;
#define HK_UINT(field, env, value, least, most, unit, level, when, doc)
#define HK_WORD(field, env, value, words, level, when, doc)
#define HK_TEXT(field, env, level, when, doc)
#include "config/options.def"
#undef HK_GROUP
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
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
#define HK_PROFILE(id, doc) {HK_PROFILE_##id, doc},
#define HK_ALIAS(id, profile)
#define HK_VALUE(profile, field, value)
#include "config/profiles.def"
#undef HK_PROFILE
#undef HK_ALIAS
};
const hk_alias_row_t hk_aliases[HK_ALIAS_COUNT] = {
#define HK_PROFILE(id, doc)
#define HK_ALIAS(id, profile) {HK_PROFILE_##id, HK_PROFILE_##profile},
#include "config/profiles.def"
#undef HK_ALIAS
#undef HK_VALUE
};
const hk_profile_value_t hk_profile_values[HK_VALUE_COUNT] = {
#define HK_ALIAS(id, profile)
#define HK_VALUE(profile, field, value) {HK_PROFILE_##profile, HK_OPTION_##field, value},
#include "config/profiles.def"
#undef HK_PROFILE
#undef HK_ALIAS
#undef HK_VALUE
};

/* ---- names ---- */

unsigned hk_option_find(const char *name, size_t len) {
    unsigned i = 0;
    while (i < HK_OPTION_COUNT &&
           (strlen(hk_options[i].env) != len || memcmp(name, hk_options[i].env, len) != 0))
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
            unsigned skip = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = replace < skip ? replace : skip;
        }
    }
    return row[b_len];
}

unsigned hk_option_nearest(const char *name, size_t len) {
    unsigned nearest = 0, least = UINT32_MAX;
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++) {
        unsigned far = distance(name, len, hk_options[i].env, strlen(hk_options[i].env));
        if (far < least)
            nearest = i, least = far;
    }
    return nearest;
}

/* ---- values ---- */

/* Decimal digits only; false for anything else and for what does not fit. */
static bool parse_number(const char *s, uint64_t *value) {
    uint64_t n = 0;
    if (*s == '\0')
        return false;
    for (; *s != '\0'; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
            return false;
    }
    *value = n;
    return true;
}

/* The word after the one at `word`; NULL if that is the last. */
static const char *next_word(const char *word) {
    word += strcspn(word, "|");
    return *word == '\0' ? NULL : word + 1;
}

static bool parse_word(const char *text, const char *words, uint64_t *index) {
    size_t len = strlen(text);
    uint64_t i = 0;
    for (const char *word = words; word != NULL; word = next_word(word), i++)
        if (strcspn(word, "|") == len && memcmp(text, word, len) == 0) {
            *index = i;
            return true;
        }
    return false;
}

#if HK_DEBUG
void hk_option_is_valid(unsigned option, uint64_t value) {
    hk_assert(option < HK_OPTION_COUNT);
    const hk_option_row_t *row = &hk_options[option];
    hk_assert(row->type != HK_TYPE_TEXT);
    if (row->type == HK_TYPE_NUMBER) {
        hk_assert(value >= row->least && value <= row->most);
        return;
    }
    uint64_t words = 0;
    for (const char *word = row->words; word != NULL; word = next_word(word))
        words++;
    hk_assert(value < words);
}
#endif

bool hk_option_parse(unsigned option, const char *text, uint64_t *value) {
    hk_assert(option < HK_OPTION_COUNT && hk_options[option].type != HK_TYPE_TEXT);
    const hk_option_row_t *row = &hk_options[option];
    if (row->type == HK_TYPE_WORD)
        return parse_word(text, row->words, value);
    return parse_number(text, value) && *value >= row->least && *value <= row->most;
}

static void put_word(hk_line_t *line, const char *word) {
    char text[sizeof((hk_option_row_t *)0)->words] = {0};
    memcpy(text, word, strcspn(word, "|"));
    hk_line_str(line, text);
}

static void say_nearest(hk_line_t *line, const char *words, const char *text) {
    const char *nearest = words;
    unsigned least = UINT32_MAX;
    for (const char *word = words; word != NULL; word = next_word(word)) {
        unsigned far = distance(text, strlen(text), word, strcspn(word, "|"));
        if (far < least)
            nearest = word, least = far;
    }
    hk_line_str(line, " (the nearest is ");
    put_word(line, nearest);
    hk_line_str(line, ")");
}

void hk_option_say_allowed(hk_line_t *line, unsigned option, const char *instead_of) {
    hk_assert(option < HK_OPTION_COUNT && hk_options[option].type != HK_TYPE_TEXT);
    const hk_option_row_t *row = &hk_options[option];
    if (row->type == HK_TYPE_WORD) {
        hk_line_str(line, "one of ");
        hk_line_str(line, row->words);
        hk_line_str(line, " is allowed");
        if (row->words[1] != '|') /* not a switch */
            say_nearest(line, row->words, instead_of);
        return;
    }
    hk_line_str(line, "a whole number from ");
    hk_line_u64(line, row->least);
    hk_line_str(line, " to ");
    hk_line_u64(line, row->most);
    hk_line_str(line, " (");
    hk_line_str(line, row->unit);
    hk_line_str(line, ") is allowed");
}

void hk_option_print(hk_line_t *line, unsigned option, uint64_t value) {
    hk_option_is_valid(option, value);
    const hk_option_row_t *row = &hk_options[option];
    if (row->type != HK_TYPE_WORD) {
        hk_line_u64(line, value);
        return;
    }
    const char *word = row->words;
    while (value-- > 0)
        word = next_word(word);
    put_word(line, word);
}
