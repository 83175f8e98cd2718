/* nodes: blocks of one size that the compiler knows, as a list's or a tree's are. */
#ifdef BENCH_LINKED_HAKMEM
#include <hakmem/inline.h>
#endif

#include "harness/blocks.h"
#include "harness/measure.h"

#if defined(BENCH_LINKED_HAKMEM)
#define NAME BENCH_LINKED_HAKMEM
#else
#define NAME "nodes"
#endif

/* Where the blocks come from: malloc, whoever's that is, or the inline hit. */
#if defined(BENCH_INLINE)
#define NEW(n) hak_malloc_inline(n)
#define FREE(p) hak_free_inline(p)
#else
#define NEW(n) malloc(n)
#define FREE(p) free(p)
#endif

typedef struct node {
    struct node *next;
    uint64_t key, value[4];
} node_t;

static uint64_t lists, length;

static const hb_option_t options[] = {
    {HB_UINT, "lists", &lists, .start = "2000000", .smoke = "20000", .min = 1, .positional = true,
     .doc = "built and taken down again, one after the other"},
    {HB_UINT, "length", &length, .start = "32", .min = 1, .max = 1 << 24, .positional = true,
     .doc = "nodes in each"},
};

static const hb_program_t program = {
    .name = NAME,
    .summary = "blocks of one size that the compiler knows, as a list's or a tree's are",
    .operation = "one malloc or one free",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static node_t *build(uint64_t tag) {
    node_t *list = NULL;
    for (uint64_t i = 0; i < length; i++) {
        node_t *node = NEW(sizeof *node);
        if (__builtin_expect(node == NULL, 0)) {
            hb_out_of_memory(sizeof *node);
        }
        if (__builtin_expect(hb_smoke, 0)) {
            hb_fill((unsigned char *)node->value, sizeof node->value, (uint32_t)(tag + i));
        }
        node->key = tag + i;
        node->next = list;
        list = node;
    }
    return list;
}

static void take_down(node_t *list) {
    while (list != NULL) {
        node_t *next = list->next;
        if (__builtin_expect(hb_smoke, 0)) {
            hb_verify((unsigned char *)list->value, sizeof list->value, (uint32_t)list->key);
        }
        FREE(list);
        list = next;
    }
}

int main(int argc, char **argv) {
    hb_options_parse(&program, argc, argv);
#ifdef BENCH_LINKED_HAKMEM
    if (!hak_is_serving()) {
        hb_die("this program is linked to hakmem, but its malloc is another one");
    }
#endif
    const hb_usage_t begin = hb_usage_now();
    for (uint64_t i = 0; i < lists; i++) {
        take_down(build(i));
    }
    const hb_usage_t end = hb_usage_now();
    const hb_usage_t usage = hb_usage_between(&begin, &end);
    hb_report(&program, lists * length * 2, &usage, NULL);
    return 0;
}
