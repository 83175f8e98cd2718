// operator new's bad_alloc in a program with the C++ library inside. Of that a linker takes what is referred to, and the
// function that throws it may not be: what any catch clause needs is there, and does as well. Every reference is weak, for a
// C program has none of it. In the archive only: for the shared library the loader would look up each at each start.
#include "api/api.h"

extern "C" {
[[gnu::weak]] void *allocate(size_t n) noexcept __asm__("__cxa_allocate_exception");
[[gnu::weak, noreturn]] void raise(void *object, const void *type,
                                   void (*destroy)(void *)) __asm__("__cxa_throw");
[[gnu::weak]] void destroy(void *object) __asm__("_ZNSt9bad_allocD1Ev");
[[gnu::weak]] extern const char type[] __asm__("_ZTISt9bad_alloc");
[[gnu::weak]] extern const void *const functions[] __asm__("_ZTVSt9bad_alloc");
}

// What the compiler itself refers to where it puts calls of its own into a function (sanitizers).
__asm__(".weak __gxx_personality_v0\n"
        ".weak _Unwind_Resume\n");

// An object has nothing but the address of its functions, behind two words about its type.
void hk_throw_bad_alloc(void) {
    if (allocate == nullptr || raise == nullptr || destroy == nullptr || type == nullptr ||
        functions == nullptr)
        return;
    auto *object = static_cast<const void *const **>(allocate(sizeof(void *)));
    *object = functions + 2;
    raise(object, type, destroy);
}
