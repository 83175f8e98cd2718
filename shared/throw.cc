// Throws bad_alloc in a program with the C++ library linked in statically. The linker takes only
// what is referred to, and std::__throw_bad_alloc may be missing; what every catch clause needs is
// there and is used here. All references are weak, because a C program has none of it. In the
// archive only: in the shared library the loader would look up each name at each start.
#include "api/api.h"

extern "C" {
[[gnu::weak]] void *allocate(size_t n) noexcept __asm__("__cxa_allocate_exception");
[[gnu::weak, noreturn]] void raise(void *object, const void *type,
                                   void (*destroy)(void *)) __asm__("__cxa_throw");
[[gnu::weak]] void destroy(void *object) __asm__("_ZNSt9bad_allocD1Ev");
[[gnu::weak]] extern const char type[] __asm__("_ZTISt9bad_alloc");
[[gnu::weak]] extern const void *const functions[] __asm__("_ZTVSt9bad_alloc");
}

// The compiler itself refers to these where it inserts calls into a function (sanitizers).
__asm__(".weak __gxx_personality_v0\n"
        ".weak _Unwind_Resume\n");

// A bad_alloc object is only its vtable pointer, which points behind two words about the type.
void hk_throw_bad_alloc(void) {
    if (allocate == nullptr || raise == nullptr || destroy == nullptr || type == nullptr ||
        functions == nullptr)
        return;
    auto *object = static_cast<const void *const **>(allocate(sizeof(void *)));
    *object = functions + 2;
    raise(object, type, destroy);
}
