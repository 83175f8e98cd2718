// As long as a program has no operators of its own, every form of new and delete is a hit like malloc's and free's.
#include "process.h"

#include <hakmem/hakmem.h>

#include <cstdint>
#include <new>

namespace {

// How often a section has been entered, by what the process says of itself.
unsigned long entries(const char *section) {
    static char text[1 << 16];
    decltype(hak_stats_print) *print;
    int ends[2];
    WORLD_FIND(print, "hak_stats_print");
    CHECK(print != nullptr && pipe(ends) == 0, "hak_stats_print");
    CHECK(fcntl(ends[1], F_SETPIPE_SZ, (int)sizeof text) >= (int)sizeof text, "F_SETPIPE_SZ");
    CHECK(print(ends[1], HAK_STATS_JSON) == 0, "hak_stats_print");
    close(ends[1]);
    std::size_t length = 0;
    for (ssize_t n; (n = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += static_cast<std::size_t>(n);
    close(ends[0]);
    text[length] = '\0';
    const char *found = strstr(text, section);
    if (found != nullptr)
        found = strstr(found, "\"count\":");
    CHECK(found != nullptr, "no %s in %s", section, text);
    return strtoul(found + strlen("\"count\":"), nullptr, 10);
}

enum { ROUNDS = 5000, FEW = 50 };

template <typename Call> void is_hit(const char *form, Call call) {
    call(); // the magazine has a block and room for one
    const unsigned long mallocs = entries("\"malloc_slow\""), frees = entries("\"free_slow\"");
    for (int i = 0; i < ROUNDS; i++)
        call();
    const unsigned long misses = entries("\"malloc_slow\"") - mallocs;
    const unsigned long fulls = entries("\"free_slow\"") - frees;
    CHECK(misses < FEW && fulls < FEW, "%s: of %d, %lu new and %lu delete were no hits", form,
          ROUNDS, misses, fulls);
}

} // namespace

int main() {
    world_begin(60);
    const std::nothrow_t &nt = std::nothrow;
    const std::align_val_t al{64};
    const std::size_t n = 40;
    is_hit("basic", [=] { ::operator delete(::operator new(n)); });
    is_hit("sized", [=] { ::operator delete(::operator new(n), n); });
    is_hit("nothrow", [&] { ::operator delete(::operator new(n, nt), nt); });
    is_hit("[]", [=] { ::operator delete[](::operator new[](n)); });
    is_hit("sized []", [=] { ::operator delete[](::operator new[](n), n); });
    is_hit("nothrow []", [&] { ::operator delete[](::operator new[](n, nt), nt); });
    is_hit("aligned", [=] { ::operator delete(::operator new(n, al), al); });
    is_hit("aligned sized", [=] { ::operator delete(::operator new(n, al), n, al); });
    is_hit("aligned nothrow", [&] { ::operator delete(::operator new(n, al, nt), al, nt); });
    is_hit("aligned []", [=] { ::operator delete[](::operator new[](n, al), al); });
    is_hit("aligned sized []", [=] { ::operator delete[](::operator new[](n, al), n, al); });
    is_hit("aligned nothrow []", [&] { ::operator delete[](::operator new[](n, al, nt), al, nt); });
    return 0;
}
