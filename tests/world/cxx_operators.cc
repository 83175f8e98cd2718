// Every form of operator new and delete, bad_alloc and the new-handler, and the standard library.
#include "process.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

int handler_calls = 0;

void give_up_after_three() {
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

struct HandlerError : std::bad_alloc {};

void throwing_handler() {
    handler_calls++;
    throw HandlerError();
}

void *checked(void *block, std::size_t n, std::size_t align, const char *form) {
    CHECK(block != nullptr, "%s: %zu bytes", form, n);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % align == 0, "%s(%zu): %p", form, n, block);
    return std::memset(block, 0x3C, n);
}

void plain_forms(std::size_t n) {
    const std::nothrow_t &nt = std::nothrow;
    const std::size_t align = n >= 16 ? 16 : 8;
    ::operator delete(checked(::operator new(n), n, align, "new"));
    ::operator delete(checked(::operator new(n), n, align, "new"), n);
    ::operator delete(checked(::operator new(n), n, align, "new"), nt);
    ::operator delete[](checked(::operator new[](n), n, align, "new[]"));
    ::operator delete[](checked(::operator new[](n), n, align, "new[]"), n);
    ::operator delete[](checked(::operator new[](n), n, align, "new[]"), nt);
    ::operator delete(checked(::operator new(n, nt), n, align, "nothrow new"));
    ::operator delete[](checked(::operator new[](n, nt), n, align, "nothrow new[]"));
}

void aligned_forms(std::size_t n, std::size_t align) {
    const std::nothrow_t &nt = std::nothrow;
    const std::align_val_t al{align};
    ::operator delete(checked(::operator new(n, al), n, align, "aligned new"), al);
    ::operator delete(checked(::operator new(n, al), n, align, "aligned new"), n, al);
    ::operator delete(checked(::operator new(n, al), n, align, "aligned new"), al, nt);
    ::operator delete[](checked(::operator new[](n, al), n, align, "aligned new[]"), al);
    ::operator delete[](checked(::operator new[](n, al), n, align, "aligned new[]"), n, al);
    ::operator delete[](checked(::operator new[](n, al), n, align, "aligned new[]"), al, nt);
    ::operator delete(checked(::operator new(n, al, nt), n, align, "aligned nothrow new"), al);
    ::operator delete[](checked(::operator new[](n, al, nt), n, align, "aligned nothrow"), al);
}

template <typename Call> bool throws_bad_alloc(Call call) {
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

void absurd_sizes_throw(std::size_t n) {
    CHECK(throws_bad_alloc([&] { return ::operator new(n); }), "new(0x%zx)", n);
    CHECK(throws_bad_alloc([&] { return ::operator new[](n); }), "new[](0x%zx)", n);
    CHECK(::operator new(n, std::nothrow) == nullptr, "nothrow new(0x%zx)", n);
    CHECK(::operator new[](n, std::nothrow) == nullptr, "nothrow new[](0x%zx)", n);
}

// libstdc++ rounds the size up to the alignment first, and wraps around near SIZE_MAX.
void absurd_aligned_sizes_throw(std::size_t n) {
    const std::align_val_t al{64};
    CHECK_OURS(throws_bad_alloc([&] { return ::operator new(n, al); }), "new(0x%zx, 64)", n);
    CHECK_OURS(throws_bad_alloc([&] { return ::operator new[](n, al); }), "new[](0x%zx, 64)", n);
    CHECK_OURS(::operator new(n, al, std::nothrow) == nullptr, "nothrow new(0x%zx, 64)", n);
    CHECK_OURS(::operator new[](n, al, std::nothrow) == nullptr, "nothrow new[](0x%zx, 64)", n);
}

// What is no power of two is none, and no handler can help.
void absurd_alignments_throw(std::size_t n, std::size_t align) {
    const std::align_val_t al{align};
    handler_calls = 0;
    std::set_new_handler(throwing_handler);
    CHECK_OURS(throws_bad_alloc([&] { return ::operator new(n, al); }), "new(%zu, %zu)", n, align);
    CHECK_OURS(throws_bad_alloc([&] { return ::operator new[](n, al); }), "new[](%zu, %zu)", n,
               align);
    CHECK_OURS(::operator new(n, al, std::nothrow) == nullptr, "nothrow new(%zu, %zu)", n, align);
    CHECK_OURS(::operator new[](n, al, std::nothrow) == nullptr, "nothrow new[](%zu, %zu)", n,
               align);
    CHECK_OURS(handler_calls == 0, "handler called %d times", handler_calls);
    std::set_new_handler(nullptr);
}

void new_handler_is_called(std::size_t n) {
    handler_calls = 0;
    std::set_new_handler(give_up_after_three);
    CHECK(throws_bad_alloc([&] { return ::operator new(n); }), "new with a handler");
    CHECK(handler_calls == 3, "new called the handler %d times", handler_calls);
    handler_calls = 0;
    std::set_new_handler(give_up_after_three);
    CHECK(throws_bad_alloc([&] { return ::operator new (n, std::align_val_t{128}); }),
          "aligned new");
    CHECK(handler_calls == 3, "aligned new called the handler %d times", handler_calls);
    handler_calls = 0;
    std::set_new_handler(give_up_after_three);
    CHECK(::operator new(n, std::nothrow) == nullptr, "nothrow new with a handler");
    CHECK(handler_calls == 3, "nothrow new called the handler %d times", handler_calls);
    std::set_new_handler(nullptr);
}

void throwing_handler_propagates(std::size_t n) {
    handler_calls = 0;
    std::set_new_handler(throwing_handler);
    bool own_error = false;
    try {
        ::operator delete(::operator new(n));
    } catch (const HandlerError &) {
        own_error = true;
    }
    CHECK(own_error && handler_calls == 1, "the handler's own exception must come out of new");
    CHECK(::operator new(n, std::nothrow) == nullptr, "nothrow new, throwing handler");
    CHECK(::operator new[](n, std::nothrow) == nullptr, "nothrow new[], throwing handler");
    CHECK(::operator new (n, std::align_val_t{64}, std::nothrow) == nullptr, "aligned nothrow new");
    CHECK(handler_calls == 4, "handler called %d times", handler_calls);
    std::set_new_handler(nullptr);
}

struct alignas(256) Wide {
    char bytes[300];
};

void fill_containers(int seed) {
    std::map<std::string, std::vector<int>> map;
    std::unordered_map<int, std::string> names;
    for (int i = 0; i < 2000; i++) {
        map["a key that is too long for the small string " + std::to_string(i)].push_back(i + seed);
        names[i] = std::string(static_cast<std::size_t>(i % 500), 'n');
    }
    std::vector<int> numbers(100000);
    std::iota(numbers.rbegin(), numbers.rend(), seed);
    std::stable_sort(numbers.begin(), numbers.end()); // takes its buffer from nothrow new
    CHECK(numbers.front() == seed && numbers.back() == seed + 99999, "stable_sort");
    auto wide = std::make_unique<Wide[]>(10);
    CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 256 == 0, "%p", (void *)wide.get());
    CHECK(map.size() == 2000 && map.begin()->second.size() == 1, "map");
    CHECK(names[499].size() == 499, "unordered_map");
}

} // namespace

int main() {
    world_begin(60);
    for (std::size_t n : {0, 1, 8, 15, 16, 100, 1024, 1025, 5000, 40000, 200000, 3000000}) {
        plain_forms(n);
        for (std::size_t align = 8; align <= MIB; align *= 2)
            aligned_forms(n, align);
    }
    volatile std::size_t absurd = PTRDIFF_MAX;
    for (std::size_t n : {absurd + 0, absurd * 2 - 62, absurd * 2 + 1}) {
        absurd_sizes_throw(n);
        absurd_aligned_sizes_throw(n);
    }
    for (std::size_t align : {0, 24, 196608})
        absurd_alignments_throw(2031616, align);
    new_handler_is_called(absurd);
    throwing_handler_propagates(absurd);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back(fill_containers, i);
    for (std::thread &thread : threads)
        thread.join();
    return 0;
}
