#include "config/config.h"

#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/report.h"

extern char **environ;

hk_config_t hk_config = {
#define HK_UINT(field, env, value, least, most, unit, level, when, doc) .field = (value),
#define HK_WORD(field, env, value, words, level, when, doc) .field = (value),
#define HK_TEXT(field, env, level, when, doc)
#include "config/options.def"
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
};

/* One row of the table. Exactly one of number and text is set; words only where the number is the
 * index of one. */
typedef struct {
    const char *env;
    _Atomic uint64_t *number;
    _Atomic(const char *) *text;
    uint64_t least, most;
    const char *unit, *words;
} option_t;

static const option_t options[] = {
#define HK_UINT(field, env, value, least, most, unit, level, when, doc)                            \
    {env, &hk_config.field, NULL, least, most, unit, NULL},
#define HK_WORD(field, env, value, words, level, when, doc)                                        \
    {env, &hk_config.field, NULL, 0, 0, NULL, words},
#define HK_TEXT(field, env, level, when, doc) {env, NULL, &hk_config.field, 0, 0, NULL, NULL},
#include "config/options.def"
#undef HK_UINT
#undef HK_WORD
#undef HK_TEXT
};
enum { OPTIONS = sizeof options / sizeof options[0], LONGEST_NAME = 64 };

void hk_config_warn(const char *name, const char *value, const char *problem,
                    const char *consequence) {
    hk_line_t line = {0};
    const char *const parts[] = {"hakmem: warning: ", name, "=", value, ": ", problem, "; ",
                                 consequence};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        hk_line_str(&line, parts[i]);
    hk_line_write(&line, STDERR_FILENO);
}

/* Decimal digits only; false for anything else and for what does not fit. */
static bool parse_uint(const char *s, uint64_t *value) {
    uint64_t n = 0;
    if (*s == '\0')
        return false;
    for (; *s != '\0'; s++) {
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
            return false;
    }
    *value = n;
    return true;
}

/* The index of `value` among words separated by bars. */
static bool parse_word(const char *value, const char *words, uint64_t *index) {
    size_t len = strlen(value);
    for (uint64_t i = 0;; i++) {
        size_t word = strcspn(words, "|");
        if (word == len && memcmp(value, words, len) == 0) {
            *index = i;
            return true;
        }
        if (words[word] == '\0')
            return false;
        words += word + 1;
    }
}

static bool parse(const option_t *option, const char *value, uint64_t *n) {
    if (option->words != NULL)
        return parse_word(value, option->words, n);
    return parse_uint(value, n) && *n >= option->least && *n <= option->most;
}

static void say_allowed(hk_line_t *line, const option_t *option) {
    if (option->words != NULL) {
        hk_line_str(line, "one of ");
        hk_line_str(line, option->words);
    } else {
        hk_line_str(line, "a whole number from ");
        hk_line_u64(line, option->least);
        hk_line_str(line, " to ");
        hk_line_u64(line, option->most);
        hk_line_str(line, " (");
        hk_line_str(line, option->unit);
        hk_line_str(line, ")");
    }
    hk_line_str(line, " is allowed");
    line->text[line->len] = '\0';
}

static void set(const option_t *option, const char *value) {
    uint64_t n;
    if (option->text != NULL) {
        hk_store_relaxed(option->text, value);
    } else if (parse(option, value, &n)) {
        hk_store_relaxed(option->number, n);
    } else {
        hk_line_t allowed = {0};
        say_allowed(&allowed, option);
        hk_config_warn(option->env, value, allowed.text, "using the default");
    }
}

/* Levenshtein's distance, for names up to LONGEST_NAME; longer ones are as far as can be. */
static unsigned distance(const char *a, size_t a_len, const char *b) {
    size_t b_len = strlen(b);
    if (a_len > LONGEST_NAME || b_len > LONGEST_NAME)
        return LONGEST_NAME;
    unsigned row[LONGEST_NAME + 1];
    for (unsigned j = 0; j <= b_len; j++)
        row[j] = j;
    for (unsigned i = 1; i <= a_len; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= b_len; j++) {
            unsigned replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            unsigned skip = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = replace < skip ? replace : skip;
        }
    }
    return row[b_len];
}

static void warn_unknown(const char *entry, size_t name_len) {
    const option_t *nearest = &options[0];
    for (size_t i = 1; i < OPTIONS; i++)
        if (distance(entry, name_len, options[i].env) < distance(entry, name_len, nearest->env))
            nearest = &options[i];
    char name[LONGEST_NAME + 1] = {0};
    memcpy(name, entry, hk_min(name_len, LONGEST_NAME));
    hk_line_t hint = {0};
    hk_line_str(&hint, "ignored (the nearest known name is ");
    hk_line_str(&hint, nearest->env);
    hk_line_str(&hint, ")");
    hint.text[hint.len] = '\0';
    hk_config_warn(name, entry + name_len + 1, "no such option", hint.text);
}

static void read_entry(const char *entry) {
    const char *equals = strchr(entry, '=');
    if (equals == NULL)
        return;
    size_t name_len = (size_t)(equals - entry);
    for (size_t i = 0; i < OPTIONS; i++)
        if (strlen(options[i].env) == name_len && memcmp(entry, options[i].env, name_len) == 0) {
            set(&options[i], equals + 1);
            return;
        }
    /* HAKMEM_BENCH_* is the benchmarks', HAKMEM_TEST_* the tests' */
    if (strncmp(entry, "HAKMEM_BENCH_", 13) != 0 && strncmp(entry, "HAKMEM_TEST_", 12) != 0)
        warn_unknown(entry, name_len);
}

void hk_config_load(void) {
    if (getauxval(AT_SECURE) != 0 || environ == NULL)
        return;
    for (char **entry = environ; *entry != NULL; entry++)
        if (strncmp(*entry, "HAKMEM_", 7) == 0)
            read_entry(*entry);
}
