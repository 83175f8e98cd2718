#include "config/listing.h"

#include <unistd.h>

#include "config/table.h"

/* Arrays, not pointers, which the loader would relocate at each start. */
static const char origins[][12] = {"default", "cgroup", "profile", "environment", "run time"};
static const char levels[][16] = {"stable", "experimental", "research"};
static const char times[][12] = {"start", "run time"};
static const char types[][8] = {"number", "word", "text"};

static bool is_text(unsigned option) { return hk_options[option].type == HK_TYPE_TEXT; }

static const char *origin_of(unsigned option) {
    return origins[hk_load_relaxed(&hk_origins[option])];
}

static bool is_changed(unsigned option) {
    return is_text(option) ? hk_option_text(option) != NULL
                           : hk_option_number(option) != hk_options[option].otherwise;
}

/* ---- lines ---- */

enum { ENOUGH = 400 };

static void put_value(hk_line_t *line, unsigned option, size_t most) {
    if (!is_text(option))
        hk_option_print(line, option, hk_option_number(option));
    else if (is_changed(option))
        hk_line_str_most(line, hk_option_text(option), most);
    else
        hk_line_str(line, "(not set)");
}

int hk_config_print_text(int fd, const char *begins) {
    hk_output_t out = {.fd = fd};
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++) {
        hk_line_t value = {0};
        put_value(&value, i, ENOUGH);
        /* a long value takes room from the unit */
        const int unit = 28 - (int)hk_min(28, hk_max(value.len, 21));
        hk_output_put(&out, "%s%-39s %-21s %-*s %s\n", begins, hk_options[i].env,
                      hk_line_text(&value), unit, hk_options[i].unit, origin_of(i));
    }
    hk_output_flush(&out);
    return out.error;
}

/* ---- settings without effect ---- */

/* const. The options from `first` to `last` have no effect while `other` has `value` and all
 * options from `from` to `to` are 0 (or are `other` itself); `what` says why. */
typedef struct {
    uint8_t first, last, other, from, to;
    uint64_t value;
    char what[40];
} suppression_t;

static const suppression_t suppressions[] = {
#define HK_SUPPRESSED_UNLESS(first, last, other, value, what, from, to)                            \
    {HK_OPTION_##first,                                                                            \
     HK_OPTION_##last,                                                                             \
     HK_OPTION_##other,                                                                            \
     HK_OPTION_##from,                                                                             \
     HK_OPTION_##to,                                                                               \
     value,                                                                                        \
     what},
#include "config/suppressed.def"
};

static bool suppresses(const suppression_t *row) {
    for (unsigned option = row->from; option <= row->to; option++)
        if (option != row->other && hk_option_number(option) != 0)
            return false;
    return is_text(row->other) ? !is_changed(row->other)
                               : hk_option_number(row->other) == row->value;
}

static bool was_set(unsigned option) {
    return is_changed(option) && hk_load_relaxed(&hk_origins[option]) >= HK_FROM_PROFILE;
}

static void put_assignment(hk_line_t *line, const char *before, unsigned option) {
    const bool missing = is_text(option) && !is_changed(option);
    hk_line_put(line, "%s%s%s", before, hk_options[option].env, missing ? " is not set" : "=");
    if (!missing)
        put_value(line, option, ENOUGH);
}

void hk_config_note_suppressed(void) {
    enum { ROWS = sizeof suppressions / sizeof suppressions[0] };
    for (unsigned i = 0, next; i < ROWS; i = next) {
        hk_line_t line = {0};
        unsigned count = 0;
        for (next = i; next < ROWS && suppressions[next].other == suppressions[i].other &&
                       suppressions[next].value == suppressions[i].value;
             next++)
            for (unsigned option = suppressions[next].first;
                 suppresses(&suppressions[next]) && option <= suppressions[next].last; option++)
                if (was_set(option))
                    put_assignment(&line, count++ == 0 ? "hakmem: note: " : ", ", option);
        if (count == 0)
            continue;
        put_assignment(
            &line, count == 1 ? " has no effect: " : " have no effect: ", suppressions[i].other);
        hk_line_put(&line, "%s%s", *suppressions[i].what != '\0' ? " " : "", suppressions[i].what);
        hk_line_write(&line, STDERR_FILENO);
    }
}

/* ---- JSON ---- */

/* Flushes `out`, whose line this is, when the line is full: a path may be longer. NULL: the string
 * fits. */
static void put_string(hk_line_t *line, const char *before, const char *s, hk_output_t *out) {
    enum { LONGEST_ESCAPE = 6 };
    hk_line_put(line, "%s\"", before);
    for (; *s != '\0'; s++) {
        if (sizeof line->text - line->len < 2 * LONGEST_ESCAPE)
            hk_output_flush(out);
        hk_line_json(line, (char[]){*s, '\0'});
    }
    hk_line_str(line, "\"");
}

static void put_number(hk_line_t *line, const char *before, unsigned option, uint64_t value) {
    hk_line_put(line, "%s\"", before);
    hk_option_print(line, option, value);
    hk_line_str(line, "\"");
}

static void put_what_is_allowed(hk_line_t *line, const hk_option_row_t *row) {
    const char *before = ",\"words\":[";
    if (row->type == HK_TYPE_NUMBER)
        hk_line_put(line, ",\"least\":%lu,\"most\":%lu,\"unit\":\"%s\"", row->least, row->most,
                    row->unit);
    if (row->type != HK_TYPE_WORD)
        return;
    for (const char *s = row->words; s != NULL; s = hk_word_at(s, 1), before = ",")
        hk_line_put(line, "%s\"%.*s\"", before, (int)strcspn(s, "|"), s);
    hk_line_str(line, "]");
}

static void print_option(unsigned option, const char *group, hk_output_t *out) {
    const hk_option_row_t *row = &hk_options[option];
    hk_line_t *line = &out->line;
    hk_line_put(line, "%s{\"name\":\"%s\",\"group\":\"%s\",\"type\":\"%s\"", option > 0 ? "," : "",
                row->env, group, types[row->type]);
    put_what_is_allowed(line, row);
    hk_line_put(line, ",\"level\":\"%s\",\"when\":\"%s\"", levels[row->level], times[row->when]);
    put_string(line, ",\"doc\":", row->doc, out);
    hk_line_put(line, ",\"origin\":\"%s\",\"built\":%s", origin_of(option),
                hk_option_built(option) ? "true" : "false");
    if (!is_text(option)) {
        put_number(line, ",\"default\":", option, row->otherwise);
        put_number(line, ",\"value\":", option, hk_option_number(option));
    } else if (is_changed(option)) {
        put_string(line, ",\"default\":null,\"value\":", hk_option_text(option), out);
    } else {
        hk_line_str(line, ",\"default\":null,\"value\":null");
    }
    hk_line_str(line, "}\n");
    hk_output_flush(out);
}

static void print_profile(const hk_profile_row_t *profile, bool first, hk_output_t *out) {
    hk_line_t *line = &out->line;
    put_number(line, first ? "{\"name\":" : ",{\"name\":", HK_OPTION_profile, profile->word);
    put_string(line, ",\"doc\":", profile->doc, out);
    hk_line_str(line, ",\"aliases\":[");
    if (profile->older != profile->word)
        put_number(line, "", HK_OPTION_profile, profile->older);
    hk_line_str(line, "],\"sets\":{");
    const char *before = "";
    for (const hk_profile_value_t *v = hk_profile_values; v < hk_profile_values + HK_VALUE_COUNT;
         v++)
        if (v->profile == profile->word) {
            put_string(line, before, hk_options[v->option].env, out);
            put_number(line, ":", v->option, v->value);
            before = ",";
        }
    hk_line_str(line, "}}\n");
    hk_output_flush(out);
}

int hk_config_print_json(int fd) {
    hk_output_t out = {.fd = fd};
    hk_output_put(&out, "{\"hakmem\":\"" HK_VERSION "\",\"options\":[\n");
    const char *group = "";
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++) {
        if (hk_option_group(i) != NULL)
            group = hk_option_group(i);
        print_option(i, group, &out);
    }
    hk_output_put(&out, "],\"profiles\":[\n");
    for (unsigned i = 0; i < HK_PROFILE_COUNT; i++)
        print_profile(&hk_profiles[i], i == 0, &out);
    hk_output_put(&out, "]}\n");
    hk_output_flush(&out);
    return out.error;
}

bool hk_config_put_setting(hk_line_t *line, unsigned option) {
    hk_line_t value = {0};
    if (!is_changed(option))
        return false;
    put_value(&value, option, ENOUGH / 4);
    put_string(line, "", hk_options[option].env, NULL);
    put_string(line, ":", hk_line_text(&value), NULL);
    return true;
}
