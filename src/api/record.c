/* HAKMEM_RECORD: connects the watched front to the recorder. */
#include "record/record.h"

#include "api/asked.h"
#include "base/report.h"
#include "config/config.h"
#include "front/thread.h"
#include "front/watched.h"

static unsigned half(const hk_told_t *told) {
    return told->resized != NULL ? HK_RECORD_RESIZED : 0;
}

static void given(void **own, void *p, const hk_told_t *told) {
    uint64_t where = hk_record_where(HK_RECORD_GIVEN, p, 8);
    if (HK_UNLIKELY(told->resized != NULL || told->align != 8))
        where = hk_record_where(HK_RECORD_GIVEN | half(told), p, told->align);
    hk_record_note(own, where, told->n);
}

static void taken(void **own, void *p, const hk_told_t *told) {
    hk_record_note(own, hk_record_where(HK_RECORD_TAKEN | half(told), p, 1), 0);
}

static const hk_watcher_t recorder = {given, taken, hk_record_thread_ends, hk_record_forked};

void hk_recording_begin(void) {
    const char *value = hk_option(record);
    if (HK_FAST || value == NULL)
        return;
    hk_path_keep(value);
    const char *problem =
        *value == '\0' ? "it is empty" : hk_record_start(value, hk_option(record_mb) * HK_MIB);
    if (problem != NULL) {
        hk_config_warn("HAKMEM_RECORD", value, problem, "nothing is recorded");
    } else {
        /* gives this thread a record, so that its first operation is told as its own, and handles
         * forks */
        hk_thread_served();
        hk_watch(HK_WATCH_RECORD, &recorder);
    }
}
