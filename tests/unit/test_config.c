/* The options: every row of the table with its range and messages, every profile, misspelled names,
 * and notes about settings that have no effect. */
#include "config_child.h"

/* Fails unless a child whose whole environment is `entry` prints `warning` and has `value` for the
 * option. */
static void check_entry(char *entry, const char *warning, unsigned option, uint64_t value) {
    expected_t all = defaults();
    char *environment[] = {entry, NULL};
    if (option < HK_OPTION_COUNT)
        expect(&all, option, value, HK_FROM_ENVIRONMENT);
    check_environment(environment, warning, &all);
}

static void check_refused(unsigned option, const char *text, const char *allowed) {
    char entry[128], warning[512];
    snprintf(entry, sizeof entry, "%s=%s", hk_options[option].env, text);
    snprintf(warning, sizeof warning, "hakmem: warning: %s: %s; ignored\n", entry, allowed);
    check_entry(entry, warning, HK_OPTION_COUNT, 0);
}

/* ---- every row ---- */

static void check_number(unsigned option, uint64_t least, uint64_t most, const char *unit) {
    char entry[128], allowed[128], beyond[2][24];
    const uint64_t good[] = {least, most};
    for (unsigned i = 0; i < 2; i++) {
        snprintf(entry, sizeof entry, "%s=%" PRIu64, hk_options[option].env, good[i]);
        check_entry(entry, "", option, good[i]);
    }
    snprintf(allowed, sizeof allowed,
             "a whole number from %" PRIu64 " to %" PRIu64 " (%s) is allowed", least, most, unit);
    static const char *const wrong[] = {
        "", "abc", "12x", "-1", "+1", " 100", "0x40", "1.5", "18446744073709551617"};
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_refused(option, wrong[i], allowed);
    snprintf(beyond[0], sizeof beyond[0], "%" PRIu64, most + 1);
    snprintf(beyond[1], sizeof beyond[1], "%" PRIu64, least - 1);
    for (unsigned i = 0; i < (least > 0 ? 2u : 1u); i++)
        check_refused(option, beyond[i], allowed);
}

/* Every word is accepted; anything else is refused by a message that lists all words and, except for
 * switches, the nearest. */
static void check_words(unsigned option, const char *words) {
    char entry[256], allowed[256];
    const char *word = words;
    for (uint64_t index = 0;; index++) {
        size_t len = strcspn(word, "|");
        snprintf(entry, sizeof entry, "%s=%.*s", hk_options[option].env, (int)len, word);
        if (option != HK_OPTION_profile && option != HK_OPTION_confirm)
            check_entry(entry, "", option, index);
        if (word[len] == '\0')
            break;
        word += len + 1;
    }
    snprintf(allowed, sizeof allowed, "one of %s is allowed", words);
    if (words[1] == '|') { /* a switch: no nearest word is offered */
        check_refused(option, "", allowed);
        check_refused(option, "3", allowed);
        check_refused(option, "0|1", allowed);
        return;
    }
    size_t len = strlen(allowed);
    snprintf(allowed + len, sizeof allowed - len, " (the nearest is %s)", word);
    snprintf(entry, sizeof entry, "%s|", word);
    check_refused(option, entry, allowed);
    snprintf(entry, sizeof entry, "x%s", word);
    check_refused(option, entry, allowed);
}

static void check_left_out(unsigned option) {
    char entry[128], warning[256];
    snprintf(entry, sizeof entry, "%s=1", hk_options[option].env);
    snprintf(warning, sizeof warning,
             "hakmem: warning: %s: this build has left the observed front out; ignored\n", entry);
    check_entry(entry, warning, HK_OPTION_COUNT, 0);
}

static void check_text_option(unsigned option) {
    char entry[64];
    const char *text = option == HK_OPTION_stats    ? "json:/dev/null"
                       : option == HK_OPTION_record ? "/dev/null/x" /* cannot be made */
                                                    : "/dev/null";
    expected_t all = defaults();
    char *environment[] = {entry, NULL};
    snprintf(entry, sizeof entry, "%s=%s", hk_options[option].env, text);
    strcpy(all.value[option], text);
    all.origin[option] = HK_FROM_ENVIRONMENT;
    check_environment(environment, "", &all);
    CHECK_EQ(hk_options[option].when, HK_WHEN_START); /* hk_config_control() takes no texts */
}

static void check_row(unsigned option, const char *env, const char *doc, const char *words) {
    CHECK_TEXT(hk_options[option].env, env);
    CHECK_TEXT(hk_options[option].doc, doc);
    CHECK_TEXT(hk_options[option].words, words);
    CHECK_EQ(hk_option_find(env, strlen(env)), option);
}

static void every_row(void) {
    CHECK_TEXT(hk_option_group(0), "General");
#define ROW(field, env, doc, words, check)                                                         \
    check_row(HK_OPTION_##field, env, doc, words);                                                 \
    if (hk_option_built(HK_OPTION_##field))                                                        \
        check;                                                                                     \
    else                                                                                           \
        check_left_out(HK_OPTION_##field);
#define HK_GROUP(id, title)
#define HK_UINT(field, env, value, least, most, unit, level, when, doc)                            \
    ROW(field, env, doc, "", check_number(HK_OPTION_##field, least, most, unit))
#define HK_WORD(field, env, value, words, level, when, doc)                                        \
    ROW(field, env, doc, words, check_words(HK_OPTION_##field, words))
#define HK_TEXT(field, env, level, when, doc)                                                      \
    ROW(field, env, doc, "", check_text_option(HK_OPTION_##field))
#include "config/options.def"
}

/* ---- profiles ---- */

static void expect_profile(expected_t *all, unsigned profile) {
    *all = defaults();
    expect(all, HK_OPTION_profile, profile, HK_FROM_ENVIRONMENT);
    for (unsigned i = 0; i < HK_VALUE_COUNT; i++)
        if (hk_profile_values[i].profile == profile && hk_option_built(hk_profile_values[i].option))
            expect(all, hk_profile_values[i].option, hk_profile_values[i].value, HK_FROM_PROFILE);
}

/* An option that the profile sets can still be set by its own name, before or after the profile. */
static void check_overrides(unsigned profile, char *profile_entry) {
    for (unsigned i = 0; i < HK_VALUE_COUNT; i++) {
        const hk_profile_value_t *row = &hk_profile_values[i];
        if (row->profile != profile || !hk_option_built(row->option))
            continue;
        char entry[128];
        hk_line_t other = {0};
        uint64_t value = row->value == 0 ? 1 : 0;
        expected_t all;
        expect_profile(&all, profile);
        expect(&all, row->option, value, HK_FROM_ENVIRONMENT);
        hk_option_print(&other, row->option, value);
        snprintf(entry, sizeof entry, "%s=%s", hk_options[row->option].env, hk_line_text(&other));
        char *after[] = {profile_entry, entry, NULL}, *before[] = {entry, profile_entry, NULL};
        check_environment(after, "", &all);
        check_environment(before, "", &all);
    }
}

/* The warnings for options that the profile in `entry` sets but this build has left out. */
static void print_left_out(char *out, size_t room, unsigned profile, const char *entry) {
    size_t len = 0;
    *out = '\0';
    for (unsigned i = 0; i < HK_VALUE_COUNT; i++) {
        const hk_profile_value_t *row = &hk_profile_values[i];
        const hk_option_row_t *option = &hk_options[row->option];
        hk_line_t stays = {0};
        if (row->profile != profile || hk_option_built(row->option) ||
            row->value == option->otherwise)
            continue;
        hk_option_print(&stays, row->option, option->otherwise);
        len += (size_t)snprintf(
            out + len, room - len,
            "hakmem: warning: %s: this build has left the observed front out; %s stays %s\n", entry,
            option->env, hk_line_text(&stays));
        CHECK(len < room);
    }
}

static void every_profile(void) {
    static const struct {
        const char *word;
        unsigned profile;
    } words[] = {{"balanced", HK_PROFILE_BALANCED},
                 {"speed", HK_PROFILE_SPEED},
                 {"lean", HK_PROFILE_LEAN},
                 {"bench", HK_PROFILE_BENCH},
                 {"observe", HK_PROFILE_OBSERVE},
                 {"secure", HK_PROFILE_SECURE},
                 {"MIXED_TINYV3_C7_BALANCED", HK_PROFILE_OLD_BALANCED},
                 {"MIXED_TINYV3_C7_SAFE", HK_PROFILE_SPEED}};
    expected_t all;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        char entry[64], said[512], *environment[] = {entry, NULL};
        snprintf(entry, sizeof entry, "HAKMEM_PROFILE=%s", words[i].word);
        expect_profile(&all, words[i].profile);
        print_left_out(said, sizeof said, words[i].profile, entry);
        check_environment(environment, said, &all);
        check_overrides(words[i].profile, entry);
    }
}

/* The documented values of the profiles, spelled out: a wrong table would fool the tests above. */
static void known_profiles(void) {
    static char *const speed[] = {"HAKMEM_PROFILE=speed", NULL};
    static char *const lean[] = {"HAKMEM_PROFILE=lean", NULL};
    static char *const observe[] = {"HAKMEM_PROFILE=observe", NULL};
    check_says(speed, "HAKMEM_SS_MEM_LEAN=0 (profile)\n");
    check_says(speed, "HAKMEM_TINY_PREWARM_C2=128 (profile)\n"
                      "HAKMEM_TINY_PREWARM_C3=128 (profile)\n"
                      "HAKMEM_TINY_PREWARM_C4=64 (profile)\n"
                      "HAKMEM_TINY_PREWARM_C5=64 (profile)\n"
                      "HAKMEM_TINY_PREWARM_C6=0 (default)\n");
    check_says(lean, "HAKMEM_SS_MEM_LEAN=1 (profile)\n"
                     "HAKMEM_SS_MEM_LEAN_DECOMMIT=1 (profile)\n"
                     "HAKMEM_SS_MEM_LEAN_TARGET_MB=4 (profile)\n");
    if (hk_option_built(HK_OPTION_front_metrics))
        check_says(observe, "HAKMEM_TINY_FRONT_METRICS=1 (profile)\n");
}

static void balanced_is_the_default(void) {
    for (unsigned i = 0; i < HK_VALUE_COUNT; i++)
        if (hk_profile_values[i].profile == HK_PROFILE_BALANCED)
            CHECK_EQ(hk_profile_values[i].value, hk_options[hk_profile_values[i].option].otherwise);
}

/* ---- names ---- */

static void unknown_names(void) {
    static const char *const nearest[][2] = {
        {"HAKMEM_TCACH_KB", "HAKMEM_TCACHE_KB"},
        {"HAKMEM_REGION_CACHE", "HAKMEM_REGION_CACHE_MB"},
        {"HAKMEM_THPS", "HAKMEM_THP"},
        {"HAKMEM_PROOFS", "HAKMEM_PROOF"},
        {"HAKMEM_tcache_kb", "HAKMEM_TCACHE_KB"},
        {"HAKMEM_PREWARM_C7", "HAKMEM_TINY_PREWARM_C7"},
    };
    char entry[512], warning[1024];
    for (unsigned i = 0; i < sizeof nearest / sizeof nearest[0]; i++) {
        snprintf(entry, sizeof entry, "%s=64=x", nearest[i][0]);
        snprintf(warning, sizeof warning,
                 "hakmem: warning: %s: no such option; ignored (the nearest known name is %s)\n",
                 entry, nearest[i][1]);
        check_entry(entry, warning, HK_OPTION_COUNT, 0);
    }
    check_entry("HAKMEM_COLOUR=1", "hakmem: warning: HAKMEM_COLOUR=1: no such option; ignored\n",
                HK_OPTION_COUNT, 0);
    /* a name and a value longer than any: cut, not overrun, and the rest is still said */
    memset(entry, 'X', sizeof entry);
    memcpy(entry, "HAKMEM_", 7);
    entry[200] = '=';
    entry[sizeof entry - 1] = '\0';
    char *environment[] = {entry, NULL};
    run_with(environment);
    CHECK(strncmp(child.text, "hakmem: warning: HAKMEM_XXXX", 28) == 0);
    CHECK(strstr(child.text, "XXX...: no such option; ignored") != NULL);
}

static void nearest_profiles(void) {
    static const char *const nearest[][2] = {
        {"sped", "speed"},       {"SPEED", "speed"},
        {"leen", "lean"},        {"balance", "balanced"},
        {"observer", "observe"}, {"MIXED_TINYV3_C7_SAVE", "MIXED_TINYV3_C7_SAFE"}};
    char allowed[256];
    for (unsigned i = 0; i < sizeof nearest / sizeof nearest[0]; i++) {
        snprintf(allowed, sizeof allowed, "one of %s is allowed (the nearest is %s)",
                 HK_PROFILE_WORDS, nearest[i][1]);
        check_refused(HK_OPTION_profile, nearest[i][0], allowed);
    }
    snprintf(allowed, sizeof allowed, "one of %s is allowed", HK_PROFILE_WORDS);
    check_refused(HK_OPTION_profile, "xyzzy", allowed);
}

/* Names that are not hakmem's options must cause no warning. */
static void names_of_others(void) {
    static char *const silent[] = {
        "HAKMEM_BENCH_FAST_MODE=1", "HAKMEM_TEST_ANYTHING=x", "HAKMEM=1",
        "HAKMEM_NO_EQUALS",         "HAKME_TCACHE_KB=1",      "XHAKMEM_TCACHE_KB=1"};
    for (unsigned i = 0; i < sizeof silent / sizeof silent[0]; i++)
        check_entry(silent[i], "", HK_OPTION_COUNT, 0);
}

/* ---- settings that have no effect ---- */

typedef struct {
    char *environment[5];
    const char *notes;
} notes_t;

static void check_notes(const notes_t *cases, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        run_with(cases[i].environment);
        char *values = strstr(child.text, "HAKMEM_PROFILE=");
        CHECK(values != NULL);
        *values = '\0';
        CHECK_TEXT(child.text, cases[i].notes);
    }
}

static void settings_without_effect(void) {
#define LEAN_IS_ON "HAKMEM_SS_MEM_LEAN=1 suppresses prewarm\n"
#define LEAN_IS_OFF "HAKMEM_SS_MEM_LEAN=0 gives nothing back\n"
#define PROF_IS_OFF "HAKMEM_PROF=0 writes none until hak_ctl sets it\n"
    static const notes_t cases[] = {
        {{"HAKMEM_TINY_PREWARM_C2=128"},
         "hakmem: note: HAKMEM_TINY_PREWARM_C2=128 has no effect: " LEAN_IS_ON},
        {{"HAKMEM_TINY_PREWARM_C2=0"}, ""},
        {{"HAKMEM_TINY_PREWARM_C2=128", "HAKMEM_SS_MEM_LEAN=0"}, ""},
        {{"HAKMEM_TINY_PREWARM_ALL=3", "HAKMEM_TINY_PREWARM_C0=9"},
         "hakmem: note: HAKMEM_TINY_PREWARM_C0=9, HAKMEM_TINY_PREWARM_ALL=3 have no "
         "effect: " LEAN_IS_ON},
        {{"HAKMEM_PROFILE=speed"}, ""},
        {{"HAKMEM_PROFILE=speed", "HAKMEM_SS_MEM_LEAN=1"},
         "hakmem: note: HAKMEM_TINY_PREWARM_C2=128, HAKMEM_TINY_PREWARM_C3=128, "
         "HAKMEM_TINY_PREWARM_C4=64, HAKMEM_TINY_PREWARM_C5=64 have no effect: " LEAN_IS_ON},
        {{"HAKMEM_PROFILE=lean"}, ""},
        {{"HAKMEM_PROFILE=lean", "HAKMEM_SS_MEM_LEAN=0"},
         "hakmem: note: HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE, HAKMEM_SS_MEM_LEAN_TARGET_MB=4 have no "
         "effect: " LEAN_IS_OFF},
        {{"HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE", "HAKMEM_SS_MEM_LEAN=0"},
         "hakmem: note: HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE has no effect: " LEAN_IS_OFF},
        {{"HAKMEM_SS_MEM_LEAN_TARGET_MB=99"}, ""},
        {{"HAKMEM_SS_MEM_LEAN_TARGET_MB=99", "HAKMEM_SS_MEM_LEAN_DECOMMIT=OFF"},
         "hakmem: note: HAKMEM_SS_MEM_LEAN_TARGET_MB=99 has no effect: "
         "HAKMEM_SS_MEM_LEAN_DECOMMIT=OFF gives nothing back\n"},
        {{"HAKMEM_SS_MEM_LEAN_TARGET_MB=99", "HAKMEM_SS_MEM_LEAN_DECOMMIT=FREE"}, ""},
        {{"HAKMEM_STATS_SIGNAL=1"},
         "hakmem: note: HAKMEM_STATS_SIGNAL=1 has no effect: HAKMEM_STATS is not set\n"},
        {{"HAKMEM_STATS_SIGNAL=1", "HAKMEM_STATS=json:/dev/null"}, ""},
        {{"HAKMEM_ON_LIMIT=abort"},
         "hakmem: note: HAKMEM_ON_LIMIT=abort has no effect: HAKMEM_LIMIT_MB=0 sets none until "
         "hak_ctl sets it\n"},
        {{"HAKMEM_ON_LIMIT=abort", "HAKMEM_LIMIT_MB=100"}, ""},
    };
    static const notes_t observed[] = {
        {{"HAKMEM_WARM_TLS_BIND_C7=2"},
         "hakmem: note: HAKMEM_WARM_TLS_BIND_C7=2 has no effect: HAKMEM_TINY_C7_HOT=0 leaves the "
         "direct path out\n"},
        {{"HAKMEM_WARM_TLS_BIND_C7=2", "HAKMEM_TINY_C7_HOT=1"}, ""},
        {{"HAKMEM_TINY_FRONT_DUMP=/dev/null"},
         "hakmem: note: HAKMEM_TINY_FRONT_DUMP=/dev/null has no effect: "
         "HAKMEM_TINY_FRONT_METRICS=0 counts nothing\n"},
        {{"HAKMEM_TINY_FRONT_DUMP=/dev/null", "HAKMEM_PROFILE=observe"}, ""},
        {{"HAKMEM_PROF_PEAK=1"}, "hakmem: note: HAKMEM_PROF_PEAK=1 has no effect: " PROF_IS_OFF},
        {{"HAKMEM_PROF_SAMPLE_KB=0", "HAKMEM_PROF_PATH=x", "HAKMEM_PROF_EVERY_MB=9"},
         "hakmem: note: HAKMEM_PROF_SAMPLE_KB=0, HAKMEM_PROF_PATH=x, HAKMEM_PROF_EVERY_MB=9 have "
         "no effect: " PROF_IS_OFF},
        {{"HAKMEM_PROF_PEAK=1", "HAKMEM_PROF_SAMPLE_KB=0", "HAKMEM_LEAKS=1"},
         "hakmem: note: HAKMEM_PROF_PEAK=1 has no effect: " PROF_IS_OFF},
        {{"HAKMEM_PROF_PEAK=1", "HAKMEM_PROF_SAMPLE_KB=0", "HAKMEM_PROF_SIGNAL=1"}, ""},
        {{"HAKMEM_PROF_PATH=x", "HAKMEM_PROF_EVERY_MB=0"},
         "hakmem: note: HAKMEM_PROF_PATH=x has no effect: " PROF_IS_OFF},
        {{"HAKMEM_PROF_PATH=/dev/null/x", "HAKMEM_PROF_PEAK=1", "HAKMEM_PROF=1"}, ""},
    };
    check_notes(cases, sizeof cases / sizeof cases[0]);
    if (hk_option_built(HK_OPTION_front_metrics))
        check_notes(observed, sizeof observed / sizeof observed[0]);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc == 2) { /* the process is one of the children */
        print_values();
        fflush(stdout);
        _exit(0); /* without exit handlers, which some options use to print */
    }
    every_row();
    every_profile();
    known_profiles();
    unknown_names();
    nearest_profiles();
    names_of_others();
    if (!HK_HOSTILE) { /* there the target is 0 by default */
        balanced_is_the_default();
        settings_without_effect();
    }
    return 0;
}
