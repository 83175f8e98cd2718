// A program linked to libhakmem.a that allocates by hakmem/inline.h, from C++: its blocks are those
// of the other families, whoever frees them and on whatever thread, and hits are hits.
#include <hakmem/inline.h>

#include "check.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMost = 2 * HAK_INLINE_MAX;

void free_somehow(void *p, unsigned how) {
    if (how % 3 == 0)
        hak_free_inline(p);
    else if (how % 3 == 1)
        hak_free(p);
    else
        std::free(p);
}

void *new_somehow(size_t n, unsigned how) {
    return how % 2 == 0 ? hak_malloc_inline(n) : std::malloc(n);
}

// More at a time than a bin holds, so that some come from the boundary and some go there.
void hits_and_misses() {
    hak_free_inline(nullptr);
    std::vector<unsigned char *> blocks;
    for (size_t n = 0; n < kMost; n = n * 9 / 8 + 1) {
        for (unsigned i = 0; i < 300; i++) {
            auto *p = static_cast<unsigned char *>(new_somehow(n, i));
            CHECK(p != nullptr && hak_usable_size(p) >= n, "%zu bytes at %p", n, (void *)p);
            memset(p, static_cast<int>(i & 255), n);
            blocks.push_back(p);
        }
        for (unsigned i = 300; i-- > 0;) {
            const auto mine = [&](unsigned char byte) { return byte == (i & 255); };
            CHECK(std::all_of(blocks[i], blocks[i] + n, mine), "block %u of %zu bytes", i, n);
            free_somehow(blocks[i], i);
        }
        blocks.clear();
    }
}

// The last one freed is the next one handed out: nothing but the bin has been asked.
void last_in_first_out() {
    for (size_t n = 1; n <= HAK_INLINE_MAX; n *= 2) {
        void *first = hak_malloc_inline(n), *second = hak_malloc_inline(n);
        hak_free_inline(second);
        hak_free_inline(first);
        void *again = hak_malloc_inline(n);
        CHECK(again == first, "%zu bytes: %p, not %p", n, again, first);
        free(again);
    }
}

// Half of what a thread frees comes from the one before.
void threads() {
    std::vector<void *> inherited;
    for (unsigned round = 0; round < 8; round++) {
        std::thread([&] {
            std::mt19937 chance(round);
            for (unsigned i = 0; i < 4000; i++) {
                auto *p =
                    static_cast<unsigned char *>(new_somehow(chance() % kMost >> chance() % 12, i));
                *p = 1;
                inherited.push_back(p);
                if (inherited.size() > 1000) {
                    std::swap(inherited[chance() % 1000], inherited.back());
                    free_somehow(inherited.back(), i);
                    inherited.pop_back();
                }
            }
        }).join();
    }
    for (void *p : inherited)
        hak_free_inline(p);
}

} // namespace

int main(int argc, char **) {
    watchdog(60);
    CHECK(hak_is_serving() == 1, "malloc of this program is not hakmem's");
    hits_and_misses();
    if (argc == 1)
        last_in_first_out();
    threads();
    return 0;
}
