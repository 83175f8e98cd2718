// 4 GiB of live 64-byte blocks, each checked. Only with HK_BIG_TESTS=1: it needs the memory.
#include "process.h"

#include <stdint.h>

typedef struct node {
    struct node *next;
    uint64_t number;
    uint64_t inverse;
} node_t;

enum { SIZE = 64 };

int main(void) {
    world_begin(300);
    const char *wanted = getenv("HK_BIG_TESTS");
    if (wanted == NULL || strcmp(wanted, "1") != 0)
        world_skip("set HK_BIG_TESTS=1 to run with 4 GiB of live blocks (needs 6 GiB of memory)");
    uint64_t count = UINT64_C(4096) * MIB / SIZE;
    node_t *list = NULL;
    for (uint64_t i = 0; i < count; i++) {
        node_t *node = malloc(SIZE);
        CHECK(node != NULL, "malloc failed after %llu MiB", (unsigned long long)(i * SIZE / MIB));
        *node = (node_t){list, i, ~i};
        list = node;
    }
    size_t peak = process_rss();
    CHECK_OURS(peak < 4096 * MIB / 8 * 9, "RSS of %zu MiB for 4096 MiB of blocks", peak / MIB);
    for (uint64_t i = count; i-- > 0;) {
        node_t *next = list->next;
        CHECK(list->number == i && list->inverse == ~i, "block %llu changed",
              (unsigned long long)i);
        free(list);
        list = next;
    }
    CHECK(list == NULL, "the list is too long");
    return 0;
}
