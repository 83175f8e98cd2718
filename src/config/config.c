#include "config/config.h"

#include <errno.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/lock.h"
#include "config/listing.h"
#include "config/table.h"
#include "os/os.h"

extern char **environ;

hk_config_t hk_config = {
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) .field = (value),
#define HK_WORD(field, env, value, words, level, when, doc) .field = (value),
#include "config/options.def"
};
_Atomic uint8_t hk_origins[HK_OPTION_COUNT];

/* For hak_ctl(): without it the cgroup's limit could overwrite what another thread has just set. */
static hk_lock_t lock = HK_LOCK_INIT(HK_RANK_CONFIG);

void hk_config_warn(const char *name, const char *value, const char *problem,
                    const char *consequence) {
    enum { ENOUGH = 200 };
    hk_line_t start = {0};
    hk_line_str_most(&start, value, ENOUGH);
    hk_say("hakmem: warning: %s=%s: %s; %s", name, hk_line_text(&start), problem, consequence);
}

/* ---- effective values ---- */

static _Atomic uint64_t *number_of(unsigned option) {
    hk_assert(option < HK_OPTION_COUNT && hk_options[option].type != HK_TYPE_TEXT);
    return (void *)((char *)&hk_config + hk_options[option].offset);
}

static _Atomic(const char *) *text_of(unsigned option) {
    hk_assert(option < HK_OPTION_COUNT && hk_options[option].type == HK_TYPE_TEXT);
    return (void *)((char *)&hk_config + hk_options[option].offset);
}

uint64_t hk_option_number(unsigned option) { return hk_load_relaxed(number_of(option)); }
const char *hk_option_text(unsigned option) { return hk_load_relaxed(text_of(option)); }

/* This thread has made the options writable; a fork by its signal handler leaves them so, for the
 * child. */
static _Thread_local bool changing;

static bool settle_locked(hk_access_t access) {
    changing = access == HK_READ_WRITE;
    const bool settled = hk_os_settle(hk_settled_options, hk_settled_classes, access);
    changing = changing && settled;
    return settled;
}

/* An option's value is one word, so none is half set; but another thread may have left them
 * writable. */
void hk_config_forked(void) {
    lock = (hk_lock_t)HK_LOCK_INIT(HK_RANK_CONFIG);
    if (!changing)
        settle_locked(HK_READ);
}

void hk_config_settle(void) {
    hk_lock(&lock);
    hk_store_relaxed(&hk_os_settled, true);
    settle_locked(HK_READ);
    hk_unlock(&lock);
}

static void set_number(unsigned option, uint64_t value, hk_origin_t origin) {
    hk_assert(hk_option_is_valid(option, value));
    hk_assert(origin >= hk_load_relaxed(&hk_origins[option])); /* the stronger origin wins */
    hk_store_relaxed(number_of(option), value);
    hk_store_relaxed(&hk_origins[option], (uint8_t)origin);
}

/* The same where the options may be read-only. False: they could not be made writable. */
static bool change_locked(unsigned option, uint64_t value, hk_origin_t origin) {
    if (!settle_locked(HK_READ_WRITE))
        return false;
    hk_store_relaxed(&hk_config.asked, true);
    set_number(option, value, origin);
    settle_locked(HK_READ);
    return true;
}

/* Copies texts: a program may overwrite its environment with its title. */
static void set_text(unsigned option, _Atomic(const char *) *text, const char *value) {
    static char kept[8192];
    static size_t used;
    hk_assert(used <= sizeof kept);
    size_t bytes = strlen(value) + 1;
    if (bytes > sizeof kept - used) {
        hk_config_warn(hk_options[option].env, value, "longer than can be kept", "ignored");
        return;
    }
    memcpy(kept + used, value, bytes);
    hk_store_relaxed(text, kept + used);
    hk_store_relaxed(&hk_origins[option], HK_FROM_ENVIRONMENT);
    used += bytes;
}

uint64_t hk_config_target_mb(uint64_t limit) { return hk_min(hk_max(limit / 64 / HK_MIB, 1), 64); }

/* Derives the target from the cgroup's limit if memory is to be given back by an option other than
 * the default and no option sets the target. Opens files. */
static void look_at_limits(void) {
    if (hk_lean_mode() == HK_DECOMMIT_OFF || hk_option_origin(lean_decommit) == HK_FROM_DEFAULT ||
        hk_option_origin(lean_target_mb) != HK_FROM_DEFAULT)
        return;
    int unread;
    uint64_t limit = hk_os_memory_limit(HK_OS_MEMBERSHIP, HK_OS_CGROUPS, &unread);
    hk_lock(&lock);
    if (limit != 0 && hk_option_origin(lean_target_mb) == HK_FROM_DEFAULT)
        change_locked(HK_OPTION_lean_target_mb, hk_config_target_mb(limit), HK_FROM_CGROUP);
    hk_unlock(&lock);
}

/* ---- the start ---- */

static const char left_out[] = "this build has left the observed front out";

static void take_from_environment(unsigned option, const char *value) {
    const char *name = hk_options[option].env;
    uint64_t number;
    if (!hk_option_built(option)) {
        hk_config_warn(name, value, left_out, "ignored");
    } else if (hk_options[option].type == HK_TYPE_TEXT) {
        set_text(option, text_of(option), value);
    } else if (hk_option_parse(option, value, &number)) {
        if (hk_load_relaxed(&hk_origins[option]) <= HK_FROM_ENVIRONMENT)
            set_number(option, number, HK_FROM_ENVIRONMENT); /* else hak_ctl() came first */
    } else {
        hk_line_t allowed = {0};
        hk_option_say_allowed(&allowed, option, value);
        hk_config_warn(name, value, hk_line_text(&allowed), "ignored");
    }
}

static void warn_unknown(const char *entry, size_t len) {
    char name[65] = {0};
    memcpy(name, entry, hk_min(len, sizeof name - 1));
    hk_line_t hint = {0};
    hk_line_str(&hint, "ignored");
    const unsigned nearest = hk_option_nearest(entry, len);
    if (nearest < HK_OPTION_COUNT)
        hk_line_put(&hint, " (the nearest known name is %s)", hk_options[nearest].env);
    hk_config_warn(name, entry + len + 1, "no such option", hk_line_text(&hint));
}

static void read_entry(const char *entry) {
    const size_t len = strcspn(entry, "=");
    const unsigned option = hk_option_find(entry, len);
    if (entry[len] == '\0')
        return;
    if (option < HK_OPTION_COUNT)
        take_from_environment(option, entry + len + 1);
    /* HAKMEM_BENCH_* belongs to the benchmarks, HAKMEM_TEST_* to the tests */
    else if (strncmp(entry, "HAKMEM_BENCH_", 13) != 0 && strncmp(entry, "HAKMEM_TEST_", 12) != 0)
        warn_unknown(entry, len);
}

/* Warns about a profile's value for an option that this build has left out. */
static void take_nothing(const hk_profile_value_t *row) {
    hk_line_t profile = {0}, stays = {0};
    if (row->value == hk_options[row->option].otherwise)
        return;
    hk_option_print(&profile, HK_OPTION_profile, row->profile);
    hk_line_put(&stays, "%s stays ", hk_options[row->option].env);
    hk_option_print(&stays, row->option, hk_options[row->option].otherwise);
    hk_config_warn("HAKMEM_PROFILE", hk_line_text(&profile), left_out, hk_line_text(&stays));
}

/* Replaces an older name of the profile by its own, and sets its values where the environment sets
 * none. */
static void apply_profile(void) {
    if (hk_option_origin(profile) != HK_FROM_ENVIRONMENT)
        return;
    uint64_t profile = hk_option(profile);
    for (unsigned i = 0; i < HK_PROFILE_COUNT; i++)
        if (hk_profiles[i].older == profile)
            profile = hk_profiles[i].word;
    set_number(HK_OPTION_profile, profile, HK_FROM_ENVIRONMENT);
    for (unsigned i = 0; i < HK_VALUE_COUNT; i++) {
        const hk_profile_value_t *row = &hk_profile_values[i];
        if (row->profile != profile || hk_load_relaxed(&hk_origins[row->option]) >= HK_FROM_PROFILE)
            continue;
        if (hk_option_built(row->option))
            set_number(row->option, row->value, HK_FROM_PROFILE);
        else
            take_nothing(row);
    }
}

/* Character by character, so that a process without options touches no page of constants. */
static bool is_ours(const char *entry) {
    return entry[0] == 'H' && entry[1] == 'A' && entry[2] == 'K' && entry[3] == 'M' &&
           entry[4] == 'E' && entry[5] == 'M' && entry[6] == '_';
}

/* Only for entries that is_ours() accepts. No table is used either: the proof is asked of processes
 * whose memory is measured. */
static bool is_proof(const char *entry) {
    return entry[7] == 'P' && entry[8] == 'R' && entry[9] == 'O' && entry[10] == 'O' &&
           entry[11] == 'F' && entry[12] == '=';
}

void hk_config_load(void) {
    if (getauxval(AT_SECURE) != 0 || environ == NULL)
        return;
    for (char **entry = environ; *entry != NULL; entry++)
        if (is_ours(*entry) && is_proof(*entry)) {
            set_text(HK_OPTION_proof, &hk_config.proof, *entry + 13);
        } else if (is_ours(*entry)) {
            hk_store_relaxed(&hk_config.asked, true);
            read_entry(*entry);
        }
    if (!hk_option(asked))
        return;
    apply_profile();
    hk_store_relaxed(&hk_on_fault, (unsigned)hk_option(on_fault));
    look_at_limits();
    hk_config_note_suppressed();
    if (hk_option(confirm) != 0)
        hk_config_print_text(STDERR_FILENO, "hakmem: ");
}

/* ---- while the process runs ---- */

static int read_out(unsigned option, char *out, size_t out_bytes) {
    hk_line_t number = {0};
    const char *text = hk_line_text(&number);
    if (hk_options[option].type != HK_TYPE_TEXT) {
        hk_option_print(&number, option, hk_option_number(option));
        hk_line_text(&number);
    } else if (hk_option_text(option) != NULL) {
        text = hk_option_text(option);
    }
    size_t len = strlen(text);
    if (len >= out_bytes)
        return ERANGE;
    memcpy(out, text, len + 1);
    return 0;
}

int hk_config_control(const char *name, const char *value, char *out, size_t out_bytes) {
    unsigned option = hk_option_find(name, strlen(name));
    uint64_t number = 0;
    if (option == HK_OPTION_COUNT)
        return ENOENT;
    if (value != NULL) {
        if (hk_options[option].when != HK_WHEN_RUNTIME || !hk_option_built(option))
            return EPERM;
        if (!hk_option_parse(option, value, &number))
            return EINVAL;
    }
    hk_lock(&lock);
    int problem = out != NULL ? read_out(option, out, out_bytes) : 0;
    if (problem == 0 && value != NULL && !change_locked(option, number, HK_FROM_RUN_TIME))
        problem = ENOMEM;
    hk_unlock(&lock);
    if (problem == 0 && value != NULL)
        look_at_limits();
    return problem;
}
