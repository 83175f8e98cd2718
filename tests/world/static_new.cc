// A program with hakmem's archive and the C++ library inside, and hardly anything of that: what operator new does where memory
// has run out is what it does in any C++ program.
#include <hakmem/hakmem.h>

#include "check.h"

#include <cstddef>
#include <new>

static volatile std::size_t much =
    static_cast<std::size_t>(-1) / 4; // a compiler may not look at it
static int called;

static void give_up() {
    called++;
    std::set_new_handler(nullptr);
}

static bool throws() {
    try {
        return operator new(much) == nullptr;
    } catch (const std::bad_alloc &error) {
        return error.what() != nullptr;
    }
}

int main() {
    watchdog(60);
    CHECK(hak_is_serving() == 1, "not on hakmem");
    CHECK(throws() && throws(), "no bad_alloc");
    CHECK(operator new[](much, std::nothrow) == nullptr, "nothrow");
    std::set_new_handler(give_up);
    CHECK(throws() && called == 1, "with a handler");
}
