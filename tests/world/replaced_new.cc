// A program's operator new, which throws by a C++ runtime that nobody else sees.
#include <cstdlib>
#include <new>

void *operator new(std::size_t n) {
    if (void *p = std::malloc(n))
        return p;
    throw std::bad_alloc();
}

void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }
