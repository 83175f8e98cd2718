#include "guard/operators.h"

#include "os/symbols.h"

bool hk_operators_are_mixed(void) {
    return hk_symbol_of_others("_Znwm", hk_is_cxx_library) != NULL;
}
