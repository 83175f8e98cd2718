// What operator new does when memory has run out, or when the program's own new throws. It needs the
// C++ runtime, which a C program does not have: every reference to it is weak, so the library loads
// without it, and only a C++ program, which brings the runtime along, ever comes here.
#include "api/api.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace std {
using new_handler = void (*)();
[[gnu::weak]] new_handler get_new_handler() noexcept;
[[gnu::weak, noreturn]] void __throw_bad_alloc();
} // namespace std

// What the compiler itself refers to in a function with a catch clause.
__asm__(".weak __gxx_personality_v0\n"
        ".weak __cxa_begin_catch\n"
        ".weak __cxa_end_catch\n"
        ".weak _Unwind_Resume\n");

void *hk_new_failed(size_t n, size_t align, unsigned by) {
    for (;;) {
        std::new_handler handler =
            std::get_new_handler != nullptr ? std::get_new_handler() : nullptr;
        if (handler == nullptr)
            break;
        handler();
        if (void *p = hk_aligned_slow(n, align, by))
            return p;
    }
    if (std::__throw_bad_alloc != nullptr)
        std::__throw_bad_alloc();
    static const char text[] =
        "hakmem: fatal: operator new: out of memory, and no C++ runtime to throw bad_alloc\n";
    syscall(SYS_write, STDERR_FILENO, text, sizeof text - 1);
    abort();
}

void *hk_new_failed_nothrow(size_t n, size_t align, unsigned by) {
    try {
        return hk_new_failed(n, align, by);
    } catch (...) {
        return nullptr;
    }
}

void *hk_new_caught(void *(*form)(size_t), void *(*aligned)(size_t, size_t), size_t n,
                    size_t align) {
    try {
        return form != nullptr ? form(n) : aligned(n, align);
    } catch (...) {
        return nullptr;
    }
}
