#include "guard/operators.h"

#include <string.h>

#include "os/symbols.h"

static bool is_cxx_library(const char *object) {
    return strncmp(object, "libstdc++", 9) == 0 || strncmp(object, "libc++", 6) == 0;
}

bool hk_operators_are_mixed(void) { return hk_symbol_of_others("_Znwm", is_cxx_library) != NULL; }
