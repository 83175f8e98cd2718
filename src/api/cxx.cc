// What operator new does when memory has run out, or when the program's own new throws. That needs
// the C++ runtime, which a C program does not have, so every reference to it is weak. A plugin may
// bring the runtime along later, as a library or linked into itself; then it is looked up by name
// when needed. (A runtime hidden inside a plugin has its own operators, which ours do not
// interpose.)
#include "api/api.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace std {
using new_handler = void (*)();
[[gnu::weak]] new_handler get_new_handler() noexcept;
[[gnu::weak, noreturn]] void __throw_bad_alloc();
} // namespace std

// The compiler itself refers to these in a function with a catch clause.
__asm__(".weak __gxx_personality_v0\n"
        ".weak __cxa_begin_catch\n"
        ".weak __cxa_end_catch\n"
        ".weak _Unwind_Resume\n");

static bool is_no_cxx_library(const char *object) { return !hk_is_cxx_library(object); }

// A function of a runtime that was loaded late: of a C++ library if possible, else of a plugin that
// contains the runtime; null if there is none.
template <typename F> static F *late(const char *name) {
    void *function = hk_symbol_of_others(name, is_no_cxx_library);
    if (function == nullptr)
        function = hk_symbol_of_others(name, nullptr);
    return reinterpret_cast<F *>(function);
}

void *hk_new_failed(size_t n, size_t align, unsigned by) {
    auto *get_handler = std::get_new_handler;
    if (get_handler == nullptr)
        get_handler = late<std::new_handler() noexcept>("_ZSt15get_new_handlerv");
    while (align != 0 && (align & (align - 1)) == 0) { // else no handler can help
        std::new_handler handler = get_handler != nullptr ? get_handler() : nullptr;
        if (handler == nullptr)
            break;
        handler();
        if (void *p = hk_aligned_slow(n, align, by))
            return p;
    }
    auto *throw_bad_alloc = std::__throw_bad_alloc;
    if (throw_bad_alloc == nullptr)
        throw_bad_alloc = late<void()>("_ZSt17__throw_bad_allocv");
    if (throw_bad_alloc != nullptr)
        throw_bad_alloc();
    if (hk_throw_bad_alloc != nullptr)
        hk_throw_bad_alloc();
    // A runtime inside a plugin exports only what the plugin uses, but always an operator new that
    // throws: let it fail on an impossible size. If that operator calls ours, n is that size: do
    // not recurse.
    constexpr size_t never = SIZE_MAX - 41;
    if (get_handler != nullptr && n != never)
        if (auto *form = late<void *(size_t)>("_Znwm"))
            form(never);
    static const char text[] =
        "hakmem: fatal: operator new: out of memory, and no C++ runtime to throw bad_alloc\n";
    syscall(SYS_write, STDERR_FILENO, text, sizeof text - 1);
    abort();
}

// Without the runtime at load time, our catch clauses do not work. A runtime that was loaded late
// has nothrow forms, which call its throwing ones. Returns false if there is no such form.
static bool late_nothrow(size_t n, size_t align, bool is_aligned, bool array, void **p) {
    const char nothrow = 0; // its value does not matter
    if (std::get_new_handler != nullptr)
        return false;
    if (is_aligned) {
        const char *name =
            array ? "_ZnamSt11align_val_tRKSt9nothrow_t" : "_ZnwmSt11align_val_tRKSt9nothrow_t";
        auto *form = late<void *(size_t, size_t, const char &)>(name);
        *p = form != nullptr ? form(n, align, nothrow) : nullptr;
        return form != nullptr;
    }
    const char *name = array ? "_ZnamRKSt9nothrow_t" : "_ZnwmRKSt9nothrow_t";
    auto *form = late<void *(size_t, const char &)>(name);
    *p = form != nullptr ? form(n, nothrow) : nullptr;
    return form != nullptr;
}

void *hk_new_caught(void *(*form)(size_t), void *(*aligned)(size_t, size_t), size_t n, size_t align,
                    unsigned by, bool array) {
    void *p = nullptr;
    const bool ours = form == nullptr && aligned == nullptr;
    const bool is_aligned = ours ? align > __STDCPP_DEFAULT_NEW_ALIGNMENT__ : form == nullptr;
    if (late_nothrow(n, align, is_aligned, array, &p) || (ours && std::get_new_handler == nullptr))
        return p;
    try {
        return ours ? hk_new_failed(n, align, by) : is_aligned ? aligned(n, align) : form(n);
    } catch (...) {
        return nullptr;
    }
}
