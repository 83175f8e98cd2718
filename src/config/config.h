/* The options. The table is options.def; a value comes from hak_ctl(), the environment, the
 * profile, the cgroup's limits or the table, the first of these that says something. */
#pragma once

#include "base/base.h"

/* What the words of some options mean, in their order. */
#define HK_PROFILE_DEFAULT "balanced"
#define HK_PROFILE_WORDS                                                                           \
    HK_PROFILE_DEFAULT                                                                             \
    "|speed|lean|secure|bench|observe|MIXED_TINYV3_C7_BALANCED|MIXED_TINYV3_C7_SAFE"
enum {
#define HK_PROFILE(id, older, doc) HK_PROFILE_##id,
#include "config/profiles.def"
    HK_PROFILE_COUNT,
    /* never the effective value: the profile's own name is */
    HK_PROFILE_OLD_SPEED = HK_PROFILE_COUNT,
};
enum { HK_DECOMMIT_OFF, HK_DECOMMIT_FREE, HK_DECOMMIT_DONTNEED };
enum { HK_ON_LIMIT_NULL, HK_ON_LIMIT_ABORT };
enum { HK_MATCH_OFF, HK_MATCH_SIZES, HK_MATCH_KINDS };
enum { HK_TINY_PROFILE_ADAPTIVE, HK_TINY_PROFILE_FULL };

/* atomic: any thread reads; written at the start of the process and by hak_ctl(). */
typedef struct {
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) _Atomic uint64_t field;
#define HK_WORD(field, env, value, words, level, when, doc) _Atomic uint64_t field;
#define HK_TEXT(field, env, level, when, doc) _Atomic(const char *) field;
#include "config/options.def"
    atomic_bool asked; /* anybody has set more than the proof */
} hk_config_t;

/* The options by number, in the table's order. */
typedef enum {
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) HK_OPTION_##field,
#define HK_WORD(field, env, value, words, level, when, doc) HK_OPTION_##field,
#define HK_TEXT(field, env, level, when, doc) HK_OPTION_##field,
#include "config/options.def"
    HK_OPTION_COUNT
} hk_option_id_t;

/* Where a value came from, the weakest first. */
typedef enum {
    HK_FROM_DEFAULT,
    HK_FROM_CGROUP,
    HK_FROM_PROFILE,
    HK_FROM_ENVIRONMENT,
    HK_FROM_RUN_TIME
} hk_origin_t;

/* The effective values: the table's defaults until hk_config_load() has run. Texts are NULL where
 * not set, and belong to this box. */
extern hk_config_t hk_config;
#define hk_option(field) hk_load_relaxed(&hk_config.field)

extern _Atomic uint8_t hk_origins[HK_OPTION_COUNT]; /* atomic: any thread; an hk_origin_t each */
#define hk_option_origin(field) ((hk_origin_t)hk_load_relaxed(&hk_origins[HK_OPTION_##field]))

/* What lean does with free memory. */
HK_INLINE uint64_t hk_lean_mode(void) {
    return hk_option(lean) != 0 ? hk_option(lean_decommit) : HK_DECOMMIT_OFF;
}

/* Reads the environment and applies the profile. A value that cannot be used gets one line on
 * stderr and is ignored; so is an unknown HAKMEM_* name, with the nearest known one. So says what
 * has no effect, and, where HAKMEM_CONFIRM asks for it, all values. Ignores the environment of a
 * setuid program. Opens no file unless the environment says something of giving memory back. */
void hk_config_load(void);

/* From now on only hak_ctl() can write to the options, where the system and the linker help. */
void hk_config_settle(void);

/* The effective value by number: of an option that is no text, and of one that is. */
uint64_t hk_option_number(unsigned option);
const char *hk_option_text(unsigned option);

/* The lean target, in MiB, where the cgroup limits memory to so many bytes. */
uint64_t hk_config_target_mb(uint64_t limit);

/* hak_ctl() (hakmem/hakmem.h) without telling the boxes. */
int hk_config_control(const char *name, const char *value, char *out, size_t out_bytes);

/* "hakmem: warning: NAME=value: problem; consequence" on stderr. */
void hk_config_warn(const char *name, const char *value, const char *problem,
                    const char *consequence);

/* In the child of a fork: whoever was in hk_config_control() is not there. */
void hk_config_forked(void);
