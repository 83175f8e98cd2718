/* A sample for which a heap profile has no room is lost: it is counted, the written profile says how many were, and
 * the profile is otherwise unchanged. */
#include <sys/mman.h>

#include "check.h"
#include "os/os.h"
#include "profile/table.h"
#include "profile/write.h"

#if HK_DEBUG

enum { BYTES = 100, MOST_SAMPLES = 1 << 12 };

/* Adds a sample: a made-up block address, and a made-up stack. */
static void sample(uintptr_t block, uintptr_t stack) {
    void *frames[] = {(void *)(stack * 16)};
    hk_profile_add((void *)(block * 16), BYTES, 1, frames, 1, true);
}

/* The same while the system grants only `calls` more calls. */
static void sample_with(long calls, uintptr_t block, uintptr_t stack) {
    hk_os_fail_after(calls);
    sample(block, stack);
    hk_os_fail_after(-1);
}

static size_t removed(uintptr_t block) {
    return hk_profile_remove((void *)(block * 16), true, NULL);
}

static void expect(uint64_t samples, uint64_t lost) {
    CHECK_EQ(hk_load_relaxed(&hk_profile_in_use), samples * BYTES);
    CHECK_EQ(hk_load_relaxed(&hk_profile_lost), lost);
}

/* How many lost samples the written profile reports; 0: it reports none. */
static uint64_t said(void) {
    static char text[1 << 16];
    const hk_profile_about_t about = {.reason = "test", .live = UINT64_MAX};
    const int fd = memfd_create("profile", 0);
    CHECK(fd >= 0 && hk_profile_write(fd, &about) == 0);
    const ssize_t n = pread(fd, text, sizeof text - 1, 0);
    CHECK(n > 0 && close(fd) == 0);
    text[n] = '\0';
    const char *lost = memmem(text, (size_t)n, "lost_samples ", 13);
    return lost != NULL ? strtoull(lost + 13, NULL, 10) : 0;
}

/* Samples are lost while the system refuses any of the memory that the first sample needs. */
static void without_memory(void) {
    for (unsigned lost = 0; lost < 4; lost++) {
        sample_with(lost != 0, 1, 1);
        expect(0, lost + 1);
        CHECK_EQ(removed(1), 0);
    }
    CHECK_EQ(said(), 4);
    sample_with(1, 1, 1);
    expect(1, 4);
    CHECK_EQ(removed(1), BYTES);
}

/* How many places the table has: its own memory is listed as the last block. */
static size_t places(void) {
    static hk_profile_block_t blocks[MOST_SAMPLES + 1];
    size_t count;
    CHECK(hk_profile_freeze(&count) && count <= MOST_SAMPLES);
    CHECK_EQ(hk_profile_blocks(blocks), count + 1);
    hk_profile_thaw();
    return blocks[count].n / sizeof blocks[0];
}

/* A table that cannot grow is filled up to seven eighths: in a full one, a look-up of a missing block would be slow. */
static void full_of_blocks(void) {
    hk_profile_block_t was;
    hk_profile_clear();
    const size_t most = places() - places() / 8;
    CHECK(most < places());
    for (size_t i = 1; i <= most; i++) {
        sample_with(0, i, 1);
        expect(i, 0);
    }
    for (size_t i = 1; i <= 10; i++) {
        sample_with(0, most + i, 1);
        expect(most, i);
        CHECK_EQ(removed(most + i), 0);
    }
    CHECK_EQ(said(), 10);
    CHECK_EQ(hk_profile_remove((void *)16, true, &was), BYTES);
    sample_with(0, most + 1, 1); /* takes the free place */
    hk_os_fail_after(0);
    hk_profile_put_back(&was, true);
    hk_os_fail_after(-1);
    expect(most, 11);
    hk_profile_put_back(&was, true); /* now the table can grow */
    expect(most + 1, 11);
    for (size_t i = 1; i <= most + 1; i++)
        CHECK_EQ(removed(i), BYTES);
    expect(0, 11);
}

/* When no new stack has room, samples of known stacks are still added. */
static void full_of_stacks(void) {
    uintptr_t stack = 1;
    hk_profile_clear();
    for (; hk_load_relaxed(&hk_profile_lost) == 0; stack++) {
        CHECK(stack < 1 << 20);
        sample_with(0, 1, stack);
    }
    expect(0, 1);
    sample_with(0, 2, 1);
    expect(1, 1);
    sample(3, stack);
    expect(2, 1);
    CHECK_EQ(said(), 1);
}

int main(void) {
    without_memory();
    full_of_blocks();
    full_of_stacks();
    hk_profile_clear();
    expect(0, 0);
    CHECK_EQ(said(), 0);
    return 0;
}

#else

int main(void) { return unit_skip("only a debug build can make the system refuse"); }

#endif
