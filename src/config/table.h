/* The rows of options.def and profiles.def as data: each option's name, allowed values, and how its
 * values are parsed and printed. Knows no effective values.
 *
 * No row contains a pointer, which the loader would relocate at each start. */
#pragma once

#include "base/report.h"
#include "config/config.h"

typedef enum { HK_TYPE_NUMBER, HK_TYPE_WORD, HK_TYPE_TEXT } hk_type_t;
typedef enum { HK_LEVEL_STABLE, HK_LEVEL_EXPERIMENTAL, HK_LEVEL_RESEARCH } hk_level_t;
typedef enum { HK_WHEN_START, HK_WHEN_RUNTIME } hk_when_t;

/* const. A number's value lies in [least, most]; a word's value is the index of one of `words`,
 * which are separated by bars. */
typedef struct {
    uint64_t otherwise, least, most;
    uint16_t offset; /* of the value in hk_config_t */
    uint8_t type, level, when;
    char env[40], unit[8], words[96], doc[200];
} hk_option_row_t;

extern const hk_option_row_t hk_options[HK_OPTION_COUNT];

/* A profile: a word of HAKMEM_PROFILE, and an older word for it, or the same. */
typedef struct {
    uint8_t word, older;
    char doc[120];
} hk_profile_row_t;
typedef struct {
    uint8_t profile, option;
    uint64_t value;
} hk_profile_value_t;

enum {
#define HK_VALUE(profile, field, value) HK_VALUE_##profile##_##field,
#include "config/profiles.def"
    HK_VALUE_COUNT
};

extern const hk_profile_row_t hk_profiles[HK_PROFILE_COUNT];
extern const hk_profile_value_t hk_profile_values[HK_VALUE_COUNT];

/* The title of the group that begins with this option; NULL: none does. */
const char *hk_option_group(unsigned option);

/* False: this build has left out the feature. */
bool hk_option_built(unsigned option);

/* The option of this name; HK_OPTION_COUNT: none. */
unsigned hk_option_find(const char *name, size_t len);
/* The option with the most similar name; HK_OPTION_COUNT: none is similar. */
unsigned hk_option_nearest(const char *name, size_t len);

/* Parses a value of an option that is no text; false: it is not allowed. */
bool hk_option_parse(unsigned option, const char *text, uint64_t *value);
/* Whether such an option may have this value. */
bool hk_option_is_valid(unsigned option, uint64_t value);
/* Appends "one of a|b|c is allowed (the nearest is b)". */
void hk_option_say_allowed(hk_line_t *line, unsigned option, const char *instead_of);
/* Appends the value as in the environment. */
void hk_option_print(hk_line_t *line, unsigned option, uint64_t value);
