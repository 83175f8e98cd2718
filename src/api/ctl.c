/* hak_ctl and hak_options_print: the program reads, changes and lists options while it runs. */
#include "api/api.h"
#include "api/asked.h"
#include "base/calls.h"
#include "config/config.h"
#include "config/listing.h"
#include "config/table.h"
#include "front/boundary.h"
#include "front/thread.h"
#include "guard/sample.h"
#include "hakmem/hakmem.h"
#include "policy/purger.h"
#include "stats/emit.h"

static bool asks_for_samples(const char *name, const char *value) {
    const unsigned option = hk_option_find(name, strlen(name));
    uint64_t every;
    return option == HK_OPTION_guard_sample && hk_option_built(option) &&
           hk_option_parse(option, value, &every) && every != 0;
}

/* Before a change. 0; EBUSY: other threads cannot be told of a change now; ENOMEM: no room for
 * samples, and the option stays as it was. */
static int prepare(const char *name, const char *value) {
    hk_thread_t *thread = hk_thread_enter_patiently();
    if (thread == NULL)
        return EBUSY;
    const bool can = !asks_for_samples(name, value) || hk_sample_prepare();
    hk_thread_leave(thread);
    return can ? 0 : ENOMEM;
}

HK_EXPORT int hak_ctl(const char *name, const char *value, char *out, size_t out_bytes) {
    if (name == NULL)
        return EINVAL;
    if (hk_fork_is_mine())
        return EBUSY;
    int problem = value != NULL ? prepare(name, value) : 0;
    if (problem == 0)
        problem = hk_config_control(name, value, out, out_bytes);
    if (problem == 0 && value != NULL) {
        problem = hk_front_apply() ? 0 : EBUSY;
        /* entered: else a fork might hold the lock that this takes, or wait for it in a signal
         * handler of this thread */
        hk_thread_t *thread = hk_thread_enter_patiently();
        if (thread != NULL) {
            hk_policy_apply();
            hk_thread_leave(thread);
        }
        problem = hk_profile_apply() && thread != NULL ? problem : EBUSY;
        hk_limit_apply(false);
    }
    return problem;
}

HK_EXPORT int hak_options_print(int fd, const char *format) {
    if (format == NULL)
        return EINVAL;
    hak_stats_format_t how;
    if (!hk_emit_format(format, strlen(format), &how) || how == HAK_STATS_OPENMETRICS)
        return EINVAL;
    return HK_KEEP_ERRNO(how == HAK_STATS_TEXT ? hk_config_print_text(fd, "")
                                               : hk_config_print_json(fd));
}
