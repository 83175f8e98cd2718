/* Finds exported symbols in the tables of loaded objects, without dlsym(), which allocates and
 * keeps an error text. */
#pragma once

#include <link.h>

#include "base/base.h"

/* The address of `name` if the object loaded at `base`, with these program headers, exports it;
 * else NULL. Symbol versions are ignored. `skips` may be NULL; if it returns true for the object's
 * own name ("" if it has none), the object is passed over. */
void *hk_symbol_in(uintptr_t base, const ElfW(Phdr) * parts, unsigned count, const char *name,
                   bool skips(const char *object));

/* Whether this is the name of a C++ library; usable as `skips`. */
bool hk_is_cxx_library(const char *object);

/* The same for the first object, other than ours, that exports it. Takes the lock under which the
 * loader walks its objects. (C++ sees it by api/api.h.) */
void *hk_symbol_of_others(const char *name, bool skips(const char *object));
