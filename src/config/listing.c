#include "config/listing.h"

#include <string.h>
#include <unistd.h>

#include "config/table.h"

/* Arrays, not pointers: those would be written to by the loader at each start. */
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

static void put_value(hk_line_t *line, unsigned option) {
    enum { ENOUGH = 400 };
    if (!is_text(option)) {
        hk_option_print(line, option, hk_option_number(option));
    } else if (hk_option_text(option) != NULL) {
        hk_line_str_most(line, hk_option_text(option), ENOUGH);
    } else {
        hk_line_str(line, "(not set)");
    }
}

void hk_config_print_text(int fd, const char *begins) {
    enum { VALUE = 40, UNIT = 62, ORIGIN = 70 };
    hk_config_look_at_limits();
    size_t at = strlen(begins);
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++) {
        hk_line_t line = {0};
        hk_line_str(&line, begins);
        hk_line_str(&line, hk_options[i].env);
        hk_line_pad(&line, at + VALUE);
        put_value(&line, i);
        hk_line_pad(&line, at + UNIT);
        hk_line_str(&line, hk_options[i].unit);
        hk_line_pad(&line, at + ORIGIN);
        hk_line_str(&line, origin_of(i));
        hk_line_write(&line, fd);
    }
}

/* ---- settings without effect ---- */

/* const. `option` has no effect while `other` has `value`; `what` that does. */
typedef struct {
    uint8_t option, other;
    uint64_t value;
    char what[32];
} suppression_t;

static const suppression_t suppressions[] = {
#define HK_SUPPRESSED(field, other, value, what)                                                   \
    {HK_OPTION_##field, HK_OPTION_##other, value, what},
#include "config/suppressed.def"
#undef HK_SUPPRESSED
};

static bool is_suppressed(const suppression_t *row) {
    bool other =
        is_text(row->other) ? !is_changed(row->other) : hk_option_number(row->other) == row->value;
    return other && is_changed(row->option) &&
           hk_load_relaxed(&hk_origins[row->option]) >= HK_FROM_PROFILE;
}

static void put_assignment(hk_line_t *line, unsigned option) {
    hk_line_str(line, hk_options[option].env);
    if (is_text(option) && !is_changed(option)) {
        hk_line_str(line, " is not set");
        return;
    }
    hk_line_str(line, "=");
    put_value(line, option);
}

static void finish_note(hk_line_t *line, const suppression_t *row) {
    hk_line_str(line, ": ");
    put_assignment(line, row->other);
    if (row->what[0] != '\0')
        hk_line_str(line, " ");
    hk_line_str(line, row->what);
    hk_line_write(line, STDERR_FILENO);
}

void hk_config_note_suppressed(void) {
    enum { ROWS = sizeof suppressions / sizeof suppressions[0] };
    for (unsigned i = 0, next; i < ROWS; i = next) {
        hk_line_t line = {0};
        unsigned count = 0;
        for (next = i; next < ROWS && suppressions[next].other == suppressions[i].other &&
                       suppressions[next].value == suppressions[i].value;
             next++) {
            if (!is_suppressed(&suppressions[next]))
                continue;
            hk_line_str(&line, count++ == 0 ? "hakmem: note: " : ", ");
            put_assignment(&line, suppressions[next].option);
        }
        if (count == 0)
            continue;
        hk_line_str(&line, count == 1 ? " has no effect" : " have no effect");
        finish_note(&line, &suppressions[i]);
    }
}

/* ---- JSON ---- */

static void put_string(hk_line_t *line, const char *s) {
    hk_line_str(line, "\"");
    hk_line_json(line, s);
    hk_line_str(line, "\"");
}

static void put_member(hk_line_t *line, const char *name, const char *value) {
    hk_line_str(line, ",\"");
    hk_line_str(line, name);
    hk_line_str(line, "\":");
    put_string(line, value);
}

static void put_number_value(hk_line_t *line, unsigned option, uint64_t value) {
    hk_line_str(line, "\"");
    hk_option_print(line, option, value);
    hk_line_str(line, "\"");
}

/* A path may be longer than a line has room for. */
static void put_long_string(hk_line_t *line, const char *s, int fd) {
    enum { LONGEST_ESCAPE = 6 };
    hk_line_str(line, "\"");
    for (; *s != '\0'; s++) {
        if (sizeof line->text - line->len < 2 * LONGEST_ESCAPE)
            hk_line_flush(line, fd);
        hk_line_json(line, (char[]){*s, '\0'});
    }
    hk_line_flush(line, fd);
    hk_line_str(line, "\"");
}

static void put_what_is_allowed(hk_line_t *line, const hk_option_row_t *row) {
    if (row->type == HK_TYPE_WORD) {
        hk_line_str(line, ",\"words\":[\"");
        for (const char *s = row->words; *s != '\0'; s++)
            hk_line_str(line, *s == '|' ? "\",\"" : (char[]){*s, '\0'});
        hk_line_str(line, "\"]");
    }
    if (row->type != HK_TYPE_NUMBER)
        return;
    hk_line_str(line, ",\"least\":");
    hk_line_u64(line, row->least);
    hk_line_str(line, ",\"most\":");
    hk_line_u64(line, row->most);
    put_member(line, "unit", row->unit);
}

static void print_option(unsigned option, const char *group, int fd) {
    const hk_option_row_t *row = &hk_options[option];
    hk_line_t line = {0};
    hk_line_str(&line, option > 0 ? ",{\"name\":" : "{\"name\":");
    put_string(&line, row->env);
    put_member(&line, "group", group);
    put_member(&line, "type", types[row->type]);
    put_what_is_allowed(&line, row);
    put_member(&line, "level", levels[row->level]);
    put_member(&line, "when", times[row->when]);
    put_member(&line, "doc", row->doc);
    put_member(&line, "origin", origin_of(option));
    hk_line_str(&line, hk_option_built(option) ? ",\"built\":true" : ",\"built\":false");
    hk_line_str(&line, ",\"default\":");
    if (is_text(option))
        hk_line_str(&line, "null");
    else
        put_number_value(&line, option, row->otherwise);
    hk_line_str(&line, ",\"value\":");
    if (!is_text(option))
        put_number_value(&line, option, hk_option_number(option));
    else if (hk_option_text(option) == NULL)
        hk_line_str(&line, "null");
    else
        put_long_string(&line, hk_option_text(option), fd);
    hk_line_str(&line, "}");
    hk_line_write(&line, fd);
}

static void print_profile(const hk_profile_row_t *profile, bool first, int fd) {
    hk_line_t line = {0};
    hk_line_str(&line, first ? "{\"name\":" : ",{\"name\":");
    put_number_value(&line, HK_OPTION_profile, profile->word);
    put_member(&line, "doc", profile->doc);
    hk_line_str(&line, ",\"aliases\":[");
    for (unsigned i = 0, count = 0; i < HK_ALIAS_COUNT; i++)
        if (hk_aliases[i].profile == profile->word) {
            hk_line_str(&line, count++ > 0 ? "," : "");
            put_number_value(&line, HK_OPTION_profile, hk_aliases[i].word);
        }
    hk_line_str(&line, "],\"sets\":{");
    for (unsigned i = 0, count = 0; i < HK_VALUE_COUNT; i++)
        if (hk_profile_values[i].profile == profile->word) {
            unsigned option = hk_profile_values[i].option;
            hk_line_str(&line, count++ > 0 ? "," : "");
            put_string(&line, hk_options[option].env);
            hk_line_str(&line, ":");
            put_number_value(&line, option, hk_profile_values[i].value);
        }
    hk_line_str(&line, "}}");
    hk_line_write(&line, fd);
}

void hk_config_print_json(int fd) {
    hk_config_look_at_limits();
    hk_line_t line = {0};
    hk_line_str(&line, "{\"hakmem\":\"" HK_VERSION "\",\"options\":[");
    hk_line_write(&line, fd);
    const char *group = "";
    for (unsigned i = 0; i < HK_OPTION_COUNT; i++) {
        if (hk_option_group(i) != NULL)
            group = hk_option_group(i);
        print_option(i, group, fd);
    }
    hk_line_str(&line, "],\"profiles\":[");
    hk_line_write(&line, fd);
    for (unsigned i = 0; i < HK_PROFILE_COUNT; i++)
        print_profile(&hk_profiles[i], i == 0, fd);
    hk_line_str(&line, "]}");
    hk_line_write(&line, fd);
}

bool hk_config_put_setting(hk_line_t *line, unsigned option) {
    enum { ENOUGH = 100 };
    if (option == HK_OPTION_proof || !is_changed(option))
        return false;
    hk_line_t value = {0};
    if (is_text(option))
        hk_line_str_most(&value, hk_option_text(option), ENOUGH);
    else
        hk_option_print(&value, option, hk_option_number(option));
    put_string(line, hk_options[option].env);
    hk_line_str(line, ":");
    put_string(line, hk_line_text(&value));
    return true;
}
