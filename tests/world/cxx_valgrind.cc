// Every pair of allocation and release that C and C++ allow, each in the name of its own form, in
// two threads: correct, so a tool that checks such pairs has nothing to say. Run under valgrind
// (run_valgrind.py), which puts its own allocator in the place of ours by the functions' addresses.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

// Written to, so that the tool sees an access to each block.
template <typename T> T *used(T *block, std::size_t n) {
    std::memset(block, 0x3C, n);
    return block;
}

void c_family(std::size_t n) {
    void *p = nullptr;
    std::free(used(std::malloc(n), n));
    std::free(used(std::calloc(n, 3), n * 3));
    std::free(used(std::realloc(used(std::malloc(n), n), n * 2), n * 2));
    std::free(used(reallocarray(nullptr, n, 5), n * 5));
    std::free(used(reallocarray(used(std::malloc(n), n), n, 5), n * 5));
    std::free(used(aligned_alloc(64, n), n));
    std::free(used(memalign(128, n), n));
    std::free(used(valloc(n), n));
    std::free(used(pvalloc(n), n));
    if (posix_memalign(&p, 256, n) == 0)
        std::free(used(p, n));
}

// Names that not every C library has.
void c_family_by_name(std::size_t n) {
    if (void *old_free = dlsym(RTLD_DEFAULT, "cfree"))
        reinterpret_cast<void (*)(void *)>(old_free)(used(std::malloc(n), n));
    if (void *sized = dlsym(RTLD_DEFAULT, "free_sized"))
        reinterpret_cast<void (*)(void *, std::size_t)>(sized)(used(std::malloc(n), n), n);
    if (void *sized = dlsym(RTLD_DEFAULT, "free_aligned_sized"))
        reinterpret_cast<void (*)(void *, std::size_t, std::size_t)>(sized)(
            used(aligned_alloc(64, n), n), 64, n);
}

void plain_operators(std::size_t n) {
    const std::nothrow_t &nt = std::nothrow;
    ::operator delete(used(::operator new(n), n));
    ::operator delete(used(::operator new(n), n), n);
    ::operator delete(used(::operator new(n), n), nt);
    ::operator delete(used(::operator new(n, nt), n));
    ::operator delete[](used(::operator new[](n), n));
    ::operator delete[](used(::operator new[](n), n), n);
    ::operator delete[](used(::operator new[](n), n), nt);
    ::operator delete[](used(::operator new[](n, nt), n));
}

void aligned_operators(std::size_t n) {
    const std::nothrow_t &nt = std::nothrow;
    const std::align_val_t al{64};
    ::operator delete(used(::operator new(n, al), n), al);
    ::operator delete(used(::operator new(n, al), n), n, al);
    ::operator delete(used(::operator new(n, al), n), al, nt);
    ::operator delete(used(::operator new(n, al, nt), n), al);
    ::operator delete[](used(::operator new[](n, al), n), al);
    ::operator delete[](used(::operator new[](n, al), n), n, al);
    ::operator delete[](used(::operator new[](n, al), n), al, nt);
    ::operator delete[](used(::operator new[](n, al, nt), n), al);
}

void all_forms() {
    for (std::size_t n : {8, 100, 5000, 300000}) {
        c_family(n);
        c_family_by_name(n);
        plain_operators(n);
        aligned_operators(n);
    }
    std::vector<std::string> words;
    for (int i = 0; i < 100; i++)
        words.emplace_back(static_cast<std::size_t>(i), 'w');
}

} // namespace

int main() {
    if (dlsym(RTLD_DEFAULT, "hak_version") == nullptr) {
        std::fputs("libhakmem is not loaded\n", stderr);
        return 2;
    }
    // The size of a page is looked up at the first call, by us and by valgrind; threads may do so
    // at the same time, which helgrind cannot know.
    std::free(valloc(1));
    std::free(pvalloc(1));
    std::thread other(all_forms);
    all_forms();
    other.join();
    return 0;
}
