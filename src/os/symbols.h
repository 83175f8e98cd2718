/* What loaded objects export, read from their own tables: no loader is asked, which allocates and keeps an error's text. */
#pragma once

#include <link.h>

#include "base/base.h"

/* The object that is loaded at `base` and has these parts exports `name` here; NULL: it does not. A name of several
 * versions is any of them. `skips` may be NULL, or says by an object's own name ("" if it has none) to pass over it. */
void *hk_symbol_in(uintptr_t base, const ElfW(Phdr) * parts, unsigned count, const char *name,
                   bool skips(const char *object));

/* Whether this is the name of a C++ library, by which it may be passed over. */
bool hk_is_cxx_library(const char *object);

/* The same of the first object that exports it, but ours. Takes the lock under which the loader walks its list of
 * objects. (C++ sees it by api/api.h.) */
void *hk_symbol_of_others(const char *name, bool skips(const char *object));
