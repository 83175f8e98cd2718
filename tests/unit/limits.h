/* Sets options and the memory limit at run time, by hak_ctl. */
#pragma once

#include "check.h"
#include "hakmem/hakmem.h"

static inline void set(const char *name, const char *value) {
    CHECK_EQ(hak_ctl(name, value, NULL, 0), 0);
}

static inline void limit_mb(size_t mb) {
    char text[24];
    snprintf(text, sizeof text, "%zu", mb);
    set("HAKMEM_LIMIT_MB", text);
}
