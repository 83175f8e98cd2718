// Containers on hakmem, by its allocator and by its memory resource; exits with 0 if all is well.
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <hakmem/allocator.hpp>

struct alignas(256) wide {
    char bytes[256];
};

// A block of hakmem's is known to it.
static bool is_ours(const void *p) { return hak_room(p) != SIZE_MAX; }

int main() {
    std::vector<int, hakmem::allocator<int>> numbers(1000, 7);
    std::vector<wide, hakmem::allocator<wide>> aligned(3);
    std::map<int, std::pmr::string> texts;
    std::pmr::vector<std::pmr::string> names(hakmem::resource());
    for (int i = 0; i < 100; i++)
        names.emplace_back("a name that is longer than what a string keeps in itself");
    bool ok = is_ours(numbers.data()) && is_ours(names.data()) && is_ours(names[99].data());
    ok = ok && reinterpret_cast<std::uintptr_t>(aligned.data()) % 256 == 0;
    ok = ok && hakmem::allocator<int>() == hakmem::allocator<long>();
    hakmem::memory_resource another;
    ok = ok && *hakmem::resource() == another && another != *std::pmr::new_delete_resource();
    try {
        hakmem::allocator<int>().allocate(SIZE_MAX / 2);
        ok = false;
    } catch (const std::bad_array_new_length &) {
    }
    try {
        another.allocate(static_cast<std::size_t>(1) << 62, 64);
        ok = false;
    } catch (const std::bad_alloc &) {
    }
    std::puts(ok ? hak_version() : "wrong");
    return !(ok && hak_is_serving());
}
