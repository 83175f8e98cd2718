// A program that replaces some of operators new and delete (REPLACES: which): every other form must come to them, as often
// as it does with the C++ library's own.
#include "process.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#define PLAIN 1        // the two basic ones
#define ALIGNED 2      // those with an alignment
#define ARRAYS 4       // those for arrays that others call
#define ONLY_NEW 8     // by malloc, for whatever delete there is
#define ONLY_DELETE 16 // by free
#define NOTHROW 32     // a derived one, by malloc
#define SIZED 64       // a derived one, by free
#define STUBBED 0      // none; but the address of one is taken
#define LINKED PLAIN
#define ARCHIVED PLAIN // and the library is linked in

namespace {

thread_local int news, deletes, aligned_news, aligned_deletes, array_news, array_deletes;
thread_local bool refuse;

constexpr std::uintptr_t MARK = 0x5EA1ED0B10C5u;

// A pointer of which the compiler knows nothing: it sees both ends of what is tested.
void *opaque(void *p) {
    __asm__("" : "+r"(p));
    return p;
}

// Each block lies behind a header, so that it is nobody else's.
[[maybe_unused]] void *behind_header(std::size_t n, std::size_t align) {
    void *base = nullptr;
    if (refuse || n > PTRDIFF_MAX || posix_memalign(&base, align, n + align) != 0)
        throw std::bad_alloc();
    base = static_cast<char *>(opaque(base)) + align;
    static_cast<std::uintptr_t *>(base)[-1] = MARK;
    return opaque(base);
}

[[maybe_unused]] void free_with_header(void *p, std::size_t align) {
    if (p == nullptr)
        return;
    std::uintptr_t &mark = static_cast<std::uintptr_t *>(opaque(p))[-1];
    CHECK(mark == MARK, "%p was not allocated by this program's operator new", p);
    mark = 0;
    std::free(static_cast<char *>(p) - align);
}

} // namespace

#if REPLACES & PLAIN
void *operator new(std::size_t n) { return news++, behind_header(n, 16); }
void operator delete(void *p) noexcept { deletes++, free_with_header(p, 16); }
#endif
#if REPLACES & ALIGNED
void *operator new(std::size_t n, std::align_val_t align) {
    aligned_news++;
    return behind_header(n, static_cast<std::size_t>(align));
}
void operator delete(void *p, std::align_val_t align) noexcept {
    aligned_deletes++;
    free_with_header(p, static_cast<std::size_t>(align));
}
#endif
#if REPLACES & ARRAYS
void *operator new[](std::size_t n) { return array_news++, behind_header(n, 16); }
void operator delete[](void *p) noexcept { array_deletes++, free_with_header(p, 16); }
#endif
#if REPLACES & ONLY_NEW
void *operator new(std::size_t n) {
    void *p = refuse ? nullptr : std::malloc(n);
    return p != nullptr ? (news++, p) : throw std::bad_alloc();
}
#endif
#if REPLACES & ONLY_DELETE
void operator delete(void *p) noexcept { deletes++, std::free(p); }
#endif
#if REPLACES & NOTHROW
void *operator new(std::size_t n, const std::nothrow_t &) noexcept { return std::malloc(n); }
#endif
#if REPLACES & SIZED
void operator delete(void *p, std::size_t) noexcept { std::free(p); }
#endif

namespace {

// How often each was called since the last time, where this program has it.
void expect(const char *form, int plain, int aligned, int array, bool of_new) {
    const int one = (REPLACES & (PLAIN | (of_new ? ONLY_NEW : ONLY_DELETE))) != 0 ? plain : 0;
    const int other = REPLACES & ALIGNED ? aligned : 0;
    // an array's own stands between the form and the basic one
    const int many = REPLACES & ARRAYS ? array : 0;
    const int rest = many != 0 ? 0 : one;
    CHECK(news == (of_new ? rest : 0) && deletes == (of_new ? 0 : rest),
          "%s: %d times new and %d delete, instead of %d", form, news, deletes, rest);
    CHECK(aligned_news == (of_new ? other : 0) && aligned_deletes == (of_new ? 0 : other),
          "%s: %d times aligned new and %d delete, instead of %d", form, aligned_news,
          aligned_deletes, other);
    CHECK(array_news == (of_new ? many : 0) && array_deletes == (of_new ? 0 : many),
          "%s: %d times new[] and %d delete[], instead of %d", form, array_news, array_deletes,
          many);
    news = deletes = aligned_news = aligned_deletes = array_news = array_deletes = 0;
}

template <typename Call> void *get(const char *form, std::size_t n, int array, Call call) {
    void *p = call();
    expect(form, 1, 0, array, true);
    CHECK(p != nullptr, "%s(%zu)", form, n);
    return std::memset(p, 0x3C, n);
}

template <typename Call> void *get_aligned(const char *form, std::size_t n, Call call) {
    void *p = call();
    expect(form, 0, 1, 0, true);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0, "%s(%zu): %p", form, n, p);
    return std::memset(p, 0x3C, n);
}

template <typename Call> void put(const char *form, int array, Call call) {
    call();
    expect(form, 1, 0, array, false);
}

template <typename Call> void put_aligned(const char *form, Call call) {
    call();
    expect(form, 0, 1, 0, false);
}

// All forms of delete on what `make` makes.
template <typename Make> void all_deletes(std::size_t n, Make make) {
    put("delete", 0, [p = make()] { ::operator delete(p); });
    put("sized delete", 0, [n, p = make()] { ::operator delete(p, n); });
    put("nothrow delete", 0, [p = make()] { ::operator delete(p, std::nothrow); });
}

template <typename Make> void all_array_deletes(std::size_t n, Make make) {
    put("delete[]", 1, [p = make()] { ::operator delete[](p); });
    put("sized delete[]", 1, [n, p = make()] { ::operator delete[](p, n); });
    put("nothrow delete[]", 1, [p = make()] { ::operator delete[](p, std::nothrow); });
}

void plain_forms(std::size_t n) {
    all_deletes(n, [n] { return get("new", n, 0, [n] { return ::operator new(n); }); });
    all_deletes(n, [n] {
        return get("nothrow new", n, 0, [n] { return ::operator new(n, std::nothrow); });
    });
    all_array_deletes(n, [n] { return get("new[]", n, 1, [n] { return ::operator new[](n); }); });
    all_array_deletes(n, [n] {
        return get("nothrow new[]", n, 1, [n] { return ::operator new[](n, std::nothrow); });
    });
}

constexpr std::align_val_t WIDE{64};

void aligned_forms(std::size_t n) {
    const auto one = [n] {
        return get_aligned("aligned new", n, [n] { return ::operator new(n, WIDE); });
    };
    const auto many = [n] {
        return get_aligned("aligned new[]", n, [n] { return ::operator new[](n, WIDE); });
    };
    put_aligned("aligned delete", [p = one()] { ::operator delete(p, WIDE); });
    put_aligned("aligned sized delete", [n, p = one()] { ::operator delete(p, n, WIDE); });
    put_aligned("aligned nothrow delete",
                [p = one()] { ::operator delete(p, WIDE, std::nothrow); });
    put_aligned("aligned delete[]", [p = many()] { ::operator delete[](p, WIDE); });
    put_aligned("aligned sized delete[]", [n, p = many()] { ::operator delete[](p, n, WIDE); });
    put_aligned("aligned nothrow delete[]",
                [p = many()] { ::operator delete[](p, WIDE, std::nothrow); });
    void *p = get_aligned("aligned nothrow new", n,
                          [n] { return ::operator new(n, WIDE, std::nothrow); });
    put_aligned("aligned delete", [p] { ::operator delete(p, WIDE); });
    p = get_aligned("aligned nothrow new[]", n,
                    [n] { return ::operator new[](n, WIDE, std::nothrow); });
    put_aligned("aligned delete[]", [p] { ::operator delete[](p, WIDE); });
}

// What the program's own throws comes out of new[], and is NULL from what may not throw.
void refusals() {
    refuse = true;
    bool thrown = false;
    try {
        if (REPLACES & ALIGNED)
            ::operator delete[](::operator new[](100, WIDE), WIDE);
        else
            ::operator delete[](::operator new[](100));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown, "new[] did not throw what new threw");
    if (REPLACES & ALIGNED) {
        CHECK(::operator new(100, WIDE, std::nothrow) == nullptr, "aligned nothrow new");
        CHECK(::operator new[](100, WIDE, std::nothrow) == nullptr, "aligned nothrow new[]");
    } else {
        CHECK(::operator new[](100, std::nothrow) == nullptr, "nothrow new[]");
        if (REPLACES & (PLAIN | ONLY_NEW))
            CHECK(::operator new(100, std::nothrow) == nullptr, "nothrow new");
    }
    refuse = false;
    news = aligned_news = array_news = 0;
}

struct Destroyed { // so that delete[] reads a count before the array
    char bytes[40];
    ~Destroyed() { bytes[0] = 0; }
};

// Many at once, as programs do it, and so that magazines overflow.
void expressions() {
    std::vector<Destroyed *> ones, arrays;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2000; i++) {
            ones.push_back(new Destroyed);
            arrays.push_back(new Destroyed[3]);
            std::memset(arrays.back()->bytes, i, sizeof arrays.back()->bytes);
        }
        for (Destroyed *one : ones)
            delete one;
        for (Destroyed *array : arrays)
            delete[] array;
        ones.clear();
        arrays.clear();
    }
}

void all_forms() {
    news = deletes = aligned_news = aligned_deletes = array_news = array_deletes = 0;
    for (std::size_t n : {0, 1, 40, 1024, 5000, 32768, 40000, 3000000})
        for (int times = 0; times < 3; times++) {
            plain_forms(n);
            aligned_forms(n);
        }
    if (REPLACES & (PLAIN | ALIGNED | ARRAYS | ONLY_NEW))
        refusals();
    expressions();
    if (REPLACES & PLAIN)
        CHECK(news == deletes && news >= 3 * 4000, "%d times new, %d times delete", news, deletes);
    if (REPLACES & ARRAYS)
        CHECK(array_news == 3 * 2000 && array_deletes == 3 * 2000,
              "%d times new[], %d times delete[]", array_news, array_deletes);
}

} // namespace

int main() {
    world_begin(60);
    // In a program that is not position independent all others take its stub's for the operator's from here on.
    void (*volatile taken)(void *) = ::operator delete;
    taken(::operator new(100));
    all_forms();
    std::thread(all_forms).join();
    return 0;
}
