// A large block of which little was written is resized: what nobody touched takes no memory, and the content stays.
#include "process.h"

#include <stdint.h>
#include <sys/resource.h>

enum { PLACES = 50 };

static size_t place(unsigned i, size_t bytes) { return i * (bytes - 1) / (PLACES - 1); }

// What was written into a block of so many bytes, as far as it is in the first `now`, is there.
static void check(const char *block, size_t bytes, size_t now) {
    for (unsigned i = 0; i < PLACES; i++)
        CHECK(place(i, bytes) >= now || block[place(i, bytes)] == (char)(i + 1),
              "byte %zu of %zu is lost", place(i, bytes), bytes);
}

static void resize(size_t bytes, size_t now) {
    char *block = calloc(1, bytes);
    CHECK(block != NULL, "%zu bytes: %s", bytes, strerror(errno));
    for (unsigned i = 0; i < PLACES; i++)
        block[place(i, bytes)] = (char)(i + 1);
    char *resized = realloc(block, now);
    CHECK(resized != NULL, "%zu to %zu bytes: %s", bytes, now, strerror(errno));
    check(resized, bytes, bytes < now ? bytes : now);
    free(resized);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    CHECK(usage.ru_maxrss < 32 * 1024, "%zu to %zu bytes: peak of %ld KiB", bytes, now,
          usage.ru_maxrss);
}

int main(void) {
    world_begin(60);
    resize(200 * MIB + 5, 230 * MIB); // grows elsewhere
    resize(200 * MIB + 5, 90 * MIB);  // is cut to less than half of it
    resize(3 * MIB + 77, 200 * MIB);
    return 0;
}
