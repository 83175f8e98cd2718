/* Operators of C++ that others have brought along. */
#pragma once

#include "base/base.h"

/* Whether a loaded object, but ours and the C++ library, has an operator new of its own. What that gives out, which is
 * malloc's to us where it takes it from there, may come back by an operator delete of ours. Takes the lock under which
 * the loader walks its list of objects. */
bool hk_operators_are_mixed(void);
