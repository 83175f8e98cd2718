// A program that replaces some of C++'s operators: the others come to these. Exits with 0 if all is well.
#include <cstdio>
#include <cstdlib>
#include <new>

#include <hakmem/hakmem.h>

static int news, deletes;

void *operator new(std::size_t n) {
    news++;
    if (void *p = std::malloc(n))
        return p;
    throw std::bad_alloc();
}

void operator delete(void *p) noexcept {
    deletes++;
    std::free(p);
}

int main() {
    ::operator delete(::operator new(100));
    ::operator delete[](::operator new[](100));
    ::operator delete(::operator new(100, std::nothrow), std::nothrow);
    const bool ok = news == 3 && deletes == 3 && hak_is_serving() != 0;
    std::puts(ok ? hak_version() : "wrong");
    return !ok;
}
