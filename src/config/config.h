/* The options. The table is options.def. A value comes from the first of these that sets it:
 * hak_ctl(), the environment, the profile, the cgroup's limits, the table. */
#pragma once

#include "base/base.h"

/* The words of some options, in the order of their values. */
#define HK_PROFILE_DEFAULT "balanced"
#define HK_PROFILE_WORDS                                                                           \
    HK_PROFILE_DEFAULT                                                                             \
    "|speed|lean|secure|bench|observe|MIXED_TINYV3_C7_BALANCED|MIXED_TINYV3_C7_SAFE"
enum {
#define HK_PROFILE(id, older, doc) HK_PROFILE_##id,
#include "config/profiles.def"
    HK_PROFILE_COUNT,
    /* never effective: the profile's own name replaces it */
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
    atomic_bool asked; /* any option but the proof has been set */
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

/* How free memory is given back. */
HK_INLINE uint64_t hk_lean_mode(void) {
    return hk_option(lean) != 0 ? hk_option(lean_decommit) : HK_DECOMMIT_OFF;
}

/* Reads the environment and applies the profile. Each unusable value gets a line on stderr and is
 * ignored; so does an unknown HAKMEM_* name, with the nearest known one. Also prints settings
 * without effect and, with HAKMEM_CONFIRM, all values. Ignores the environment of a setuid program.
 * Opens files only if the environment asks for memory to be given back. */
void hk_config_load(void);

/* From now on the options are read-only except to hak_ctl(), where system and linker support it. */
void hk_config_settle(void);

/* The effective value by number: of an option that is no text, and of a text. */
uint64_t hk_option_number(unsigned option);
const char *hk_option_text(unsigned option);

/* The lean target in MiB for a cgroup's limit in bytes. */
uint64_t hk_config_target_mb(uint64_t limit);

/* hak_ctl() (hakmem/hakmem.h) without applying the change to other boxes. */
int hk_config_control(const char *name, const char *value, char *out, size_t out_bytes);

/* "hakmem: warning: NAME=value: problem; consequence" on stderr. */
void hk_config_warn(const char *name, const char *value, const char *problem,
                    const char *consequence);

/* In a fork's child: no thread is in hk_config_control() any more. */
void hk_config_forked(void);
