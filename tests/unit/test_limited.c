/* A process that limits its own addresses must give up the flat page map: at once, or later if that would
 * take a lock that is not to be had. The faked system (os double) refuses memory, as at the limit. */
#include <pthread.h>

#include "backend/pagemap.h"
#include "backend/region.h"
#include "check.h"
#include "front/boundary.h"
#include "front/thread_own.h"
#include "hakmem/hakmem.h"
#include "os/os.h"

#if HK_DEBUG

/* Limits the addresses while the system refuses all memory. */
static void be_limited(void) {
    hk_os_fail_after(0);
    hk_addresses_limited(true);
    hk_os_fail_after(-1);
}

/* Far from the limit, the flat map must be kept, also by later allocations. */
static void far(void *unused) {
    (void)unused;
    hk_addresses_limited(true);
    CHECK(hk_map_has_flat() && !hk_load_relaxed(&hk_region_look_is_due));
    hak_free(hak_malloc(40 << 20));
    CHECK(hk_map_has_flat() && !hk_region_is_bounded());
}

/* Near the limit, the flat map must be gone when hk_addresses_limited() returns, and frees still work. */
static void at_once(void *unused) {
    (void)unused;
    char *before = hak_malloc(100);
    be_limited();
    CHECK(!hk_map_has_flat());
    hak_free(before);
    hak_free(hak_malloc(100));
}

/* The flat map must go with the next allocation that comes to the boundary. */
static void check_late(void) {
    CHECK(hk_map_has_flat() && hk_load_relaxed(&hk_region_look_is_due));
    hk_os_fail_after(0);
    hak_free(hak_malloc(20000));
    hk_os_fail_after(-1);
    CHECK(!hk_map_has_flat());
}

/* As in a signal handler that interrupted its thread inside the boundary: it is done later. */
static void from_inside(void *unused) {
    (void)unused;
    hk_thread_t *thread = hk_thread_enter();
    CHECK(thread != NULL);
    be_limited();
    CHECK(hk_map_has_flat());
    hk_thread_leave(thread);
    check_late();
}

static atomic_bool taken, over;

static void *hold_registry(void *unused) {
    hk_lock(&hk_registry);
    hk_store_seq(&taken, true);
    while (!hk_load_seq(&over))
        usleep(1000);
    hk_unlock(&hk_registry);
    return unused;
}

/* Another thread holds the registry's lock, as in a cloned child in which nobody releases it: the call
 * must not wait for ever. */
static void lock_taken(void *unused) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold_registry, unused) == 0);
    while (!hk_load_seq(&taken))
        usleep(1000);
    be_limited();
    CHECK(hk_map_has_flat());
    hk_store_seq(&over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    hk_store_relaxed(&hk_region_look_is_due, true); /* as when the bytes handed out have doubled */
    check_late();
}

static void in_child(void (*part)(void *)) {
    static child_t child;
    alarm(600);
    child_run(&child, part, NULL);
    CHECK_TEXT(child.text, "");
    CHECK(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0);
}

int main(void) {
    hak_free(hak_malloc(100));
    if (!hk_map_has_flat())
        return unit_skip("there is no flat map");
    in_child(far);
    in_child(at_once);
    in_child(from_inside);
    in_child(lock_taken);
    return 0;
}

#else

int main(void) { return unit_skip("a build without the double"); }

#endif
