/* The options, read from the environment once per process. The table is options.def. */
#ifndef HK_CONFIG_CONFIG_H
#define HK_CONFIG_CONFIG_H

#include "base/base.h"

typedef struct {
#define HK_OPTION_UINT(field, env, value, least, most, unit, doc) uint64_t field;
#define HK_OPTION_PATH(field, env, doc) const char *field;
#include "config/options.def"
#undef HK_OPTION_UINT
#undef HK_OPTION_PATH
} hk_config_t;

/* The effective values: defaults until hk_config_load() has run. Paths are NULL where not set. */
extern hk_config_t hk_config;

/* Reads the environment. A value that cannot be used gets one line on stderr and leaves the
 * default; so does an unknown HAKMEM_* name, with the nearest known one. Ignores the environment of
 * a setuid program. */
void hk_config_load(void);

/* "hakmem: warning: NAME=value: problem; consequence" on stderr. */
void hk_config_warn(const char *name, const char *value, const char *problem,
                    const char *consequence);

#endif
