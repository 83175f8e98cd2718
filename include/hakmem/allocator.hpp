/* hakmem for C++ containers, whatever the program's malloc is: an allocator and a memory resource.
 *
 *     std::vector<int, hakmem::allocator<int>> numbers;
 *     std::pmr::string text(hakmem::resource());
 *
 * C++17. Any thread may use them and free the blocks of another. Out of memory they throw
 * std::bad_alloc; in a program without exceptions (-fno-exceptions) they end the process. */
#ifndef HAKMEM_ALLOCATOR_HPP
#define HAKMEM_ALLOCATOR_HPP

#include <cstddef>
#include <cstdlib>
#include <memory_resource>
#include <new>

#include <hakmem/hakmem.h>

namespace hakmem {

namespace detail {
template <class Exception> [[noreturn]] inline void fail() {
#ifdef __cpp_exceptions
    throw Exception();
#else
    std::abort();
#endif
}
} // namespace detail

/* `bytes` aligned to `align`, a power of two; the caller owns the block until hak_free(). */
inline void *allocate(std::size_t bytes, std::size_t align) {
    void *p = align <= 8 ? hak_malloc(bytes) : hak_aligned_alloc(align, bytes);
    if (p == nullptr)
        detail::fail<std::bad_alloc>();
    return p;
}

/* Meets the standard's allocator requirements. It has no state, so all instances are equal. */
template <class T> struct allocator {
    using value_type = T;

    constexpr allocator() noexcept = default;
    template <class U> constexpr allocator(const allocator<U> &) noexcept {}

    /* Room for n objects; throws std::bad_array_new_length if n objects exceed PTRDIFF_MAX
     * bytes. */
    [[nodiscard]] T *allocate(std::size_t n) {
        if (n > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T))
            detail::fail<std::bad_array_new_length>();
        return static_cast<T *>(hakmem::allocate(n * sizeof(T), alignof(T)));
    }
    void deallocate(T *p, std::size_t) noexcept { hak_free(p); }
};

template <class T, class U>
constexpr bool operator==(const allocator<T> &, const allocator<U> &) noexcept {
    return true;
}
template <class T, class U>
constexpr bool operator!=(const allocator<T> &, const allocator<U> &) noexcept {
    return false;
}

/* All instances are equal, since they share hakmem; without RTTI an instance is equal only to
 * itself. */
class memory_resource final : public std::pmr::memory_resource {
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return hakmem::allocate(bytes, align);
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override { hak_free(p); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#ifdef __cpp_rtti
        if (dynamic_cast<const memory_resource *>(&other) != nullptr)
            return true;
#endif
        return this == &other;
    }
};

/* The process's resource. It is never destroyed: static objects that are destroyed at exit may
 * still give blocks back. */
inline memory_resource *resource() noexcept {
    alignas(memory_resource) static unsigned char place[sizeof(memory_resource)];
    static memory_resource *const one = ::new (place) memory_resource;
    return one;
}

} // namespace hakmem

#endif
