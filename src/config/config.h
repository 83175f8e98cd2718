/* The options. The table is options.def; values come from the environment, the profile, the
 * machine's limits or the table, in this order, and some can be changed while the process runs. */
#ifndef HK_CONFIG_CONFIG_H
#define HK_CONFIG_CONFIG_H

#include "base/base.h"

/* What the words of some options mean, in their order. */
#define HK_PROFILE_WORDS                                                                           \
    "balanced|speed|lean|secure|bench|observe|MIXED_TINYV3_C7_BALANCED|MIXED_TINYV3_C7_SAFE"
enum {
    HK_PROFILE_BALANCED,
    HK_PROFILE_SPEED,
    HK_PROFILE_LEAN,
    HK_PROFILE_SECURE,
    HK_PROFILE_BENCH,
    HK_PROFILE_OBSERVE,
};
enum { HK_DECOMMIT_OFF, HK_DECOMMIT_FREE, HK_DECOMMIT_DONTNEED };

/* atomic: any thread reads; written at the start of the process and by hak_ctl(). */
typedef struct {
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) _Atomic uint64_t field;
#define HK_WORD(field, env, value, words, level, when, doc) _Atomic uint64_t field;
#define HK_TEXT(field, env, level, when, doc) _Atomic(const char *) field;
#include "config/options.def"
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
} hk_config_t;

/* The effective values: the table's defaults until hk_config_load() has run. Texts are NULL where
 * not set. */
extern hk_config_t hk_config;
#define hk_option(field) hk_load_relaxed(&hk_config.field)

/* Reads the environment. A value that cannot be used gets one line on stderr and leaves the
 * default; so does an unknown HAKMEM_* name, with the nearest known one. Ignores the environment of
 * a setuid program. */
void hk_config_load(void);

/* "hakmem: warning: NAME=value: problem; consequence" on stderr. */
void hk_config_warn(const char *name, const char *value, const char *problem,
                    const char *consequence);

#endif
