#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool hb_smoke;

static _Noreturn void usage_error(const char *what, const char *name, const char *text,
                                  const char *allowed) {
    hb_print(STDERR_FILENO, "bench: error: %s%s%s%s%s%s; see --help\n", what, name, text ? "=" : "",
             text ? text : "", allowed ? ": expected " : "", allowed ? allowed : "");
    exit(2);
}

/* The index of `word` in "a|b|c", or -1. */
static int word_index(const char *words, const char *word) {
    const size_t length = strlen(word);
    int index = 0;
    for (const char *w = words; w != NULL; index++) {
        const char *end = strchr(w, '|');
        const size_t have = end ? (size_t)(end - w) : strlen(w);
        if (have == length && memcmp(w, word, length) == 0) {
            return index;
        }
        w = end ? end + 1 : NULL;
    }
    return -1;
}

static void add_word(hb_text_t *text, const char *words, unsigned index) {
    const char *w = words;
    for (unsigned i = 0; i < index; i++) {
        w = strchr(w, '|') + 1;
    }
    hb_text_add(text, "\"%.*s\"", (int)strcspn(w, "|"), w);
}

static bool parse_uint(const hb_option_t *option, const char *text) {
    if (option->words != NULL && strcmp(text, option->words) == 0) {
        *(uint64_t *)option->value = 0;
        return true;
    }
    if (!isdigit((unsigned char)text[0])) {
        return false;
    }
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 0);
    const char *const suffixes = "KMG";
    const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
    const unsigned shift = suffix ? 10U * (unsigned)(suffix - suffixes + 1) : 0;
    if (errno != 0 || end[suffix != NULL] != '\0' || number > (UINT64_MAX >> shift)) {
        return false;
    }
    const uint64_t value = (uint64_t)number << shift;
    if (value < option->min || (option->max != 0 && value > option->max)) {
        return false;
    }
    *(uint64_t *)option->value = value;
    return true;
}

static bool parse_real(const hb_option_t *option, const char *text) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0 && value < 1e9)) {
        return false;
    }
    *(double *)option->value = value;
    return true;
}

static bool parse_word(const hb_option_t *option, const char *text) {
    const int index = word_index(option->words, text);
    if (index >= 0) {
        *(unsigned *)option->value = (unsigned)index;
    }
    return index >= 0;
}

/* "1 to 16", "lifo|fifo" …: what may be written. */
static void add_allowed(hb_text_t *text, const hb_option_t *option) {
    switch (option->kind) {
    case HB_UINT:
        hb_text_add(text, "%s%sa number from %" PRIu64, option->words ? option->words : "",
                    option->words ? " or " : "", option->min);
        if (option->max != 0) {
            hb_text_add(text, " to %" PRIu64, option->max);
        }
        break;
    case HB_REAL:
        hb_text_add(text, "a number not below 0");
        break;
    case HB_WORD:
        hb_text_add(text, "%s", option->words);
        break;
    case HB_TEXT:
    case HB_FLAG:
        hb_text_add(text, "a value");
        break;
    }
}

static void set_value(const hb_option_t *option, const char *source, const char *text) {
    bool good = true;
    switch (option->kind) {
    case HB_UINT:
        good = parse_uint(option, text);
        break;
    case HB_REAL:
        good = parse_real(option, text);
        break;
    case HB_WORD:
        good = parse_word(option, text);
        break;
    case HB_TEXT:
        *(const char **)option->value = text;
        break;
    case HB_FLAG:
        *(bool *)option->value = true;
        break;
    }
    if (!good) {
        hb_text_t allowed = {0};
        add_allowed(&allowed, option);
        usage_error("", source, text, allowed.bytes);
    }
}

static void set_from_environment(const hb_option_t *option) {
    const char *text = option->env ? getenv(option->env) : NULL;
    if (text == NULL || text[0] == '\0') {
        return;
    }
    if (option->env_word == NULL) {
        set_value(option, option->env, text);
    } else if (strcmp(text, "1") == 0) {
        set_value(option, option->env, option->env_word);
    } else if (strcmp(text, "0") != 0) {
        usage_error("", option->env, text, "0 or 1");
    }
}

/* A misspelt name would otherwise leave the default in effect, and nobody would notice. */
static void refuse_unknown_environment(const hb_program_t *program) {
    static const char prefix[] = "HAKMEM_BENCH_";
    hb_text_t known = {0};
    for (size_t i = 0; i < program->count; i++) {
        const char *env = program->options[i].env;
        if (env != NULL && strncmp(env, prefix, sizeof prefix - 1) == 0) {
            hb_text_add(&known, "%s%s", known.length ? ", " : "", env);
        }
    }
    for (char **entry = environ; *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        bool read = strncmp(*entry, prefix, sizeof prefix - 1) != 0;
        for (size_t i = 0; i < program->count && !read; i++) {
            const char *env = program->options[i].env;
            read = env != NULL && strlen(env) == length && memcmp(env, *entry, length) == 0;
        }
        if (!read) {
            usage_error("unknown variable ", *entry, NULL,
                        known.length ? known.bytes : "no HAKMEM_BENCH_* in this program");
        }
    }
}

static void add_option_help(hb_text_t *text, const hb_option_t *option) {
    hb_text_add(text, "  --%s%s\n      %s", option->name, option->kind == HB_FLAG ? "" : "=VALUE",
                option->doc);
    if (option->kind != HB_FLAG && option->kind != HB_TEXT) {
        hb_text_add(text, " [");
        add_allowed(text, option);
        hb_text_add(text, "; default %s", option->start);
        if (option->smoke != NULL) {
            hb_text_add(text, ", smoke %s", option->smoke);
        }
        hb_text_add(text, "]");
    }
    if (option->env_word != NULL) {
        hb_text_add(text, " [%s=1: %s]", option->env, option->env_word);
    } else if (option->env != NULL) {
        hb_text_add(text, " [environment: %s]", option->env);
    }
    hb_text_add(text, "\n");
}

static _Noreturn void print_help(const hb_program_t *program, const char *command) {
    hb_text_t text = {0};
    hb_text_add(&text, "%s: %s\nOne operation is %s.\n\nUsage: %s", program->name, program->summary,
                program->operation, command);
    for (size_t i = 0; i < program->count; i++) {
        if (program->options[i].positional) {
            hb_text_add(&text, " [%s]", program->options[i].name);
        }
    }
    hb_text_add(&text, " [--option=value ...]\n");
    for (size_t i = 0; i < program->count; i++) {
        add_option_help(&text, &program->options[i]);
    }
    hb_text_add(&text,
                "  --smoke\n      a run of less than a second that fills and verifies blocks;"
                " exit status 1 on any damage\n  --help\n      this text\n");
    if (program->notes != NULL) {
        hb_text_add(&text, "\n%s\n", program->notes);
    }
    hb_text_write(&text, STDOUT_FILENO);
    exit(0);
}

static const hb_option_t *find_option(const hb_program_t *program, const char *name,
                                      size_t length) {
    for (size_t i = 0; i < program->count; i++) {
        const hb_option_t *option = &program->options[i];
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0) {
            return option;
        }
    }
    return NULL;
}

static const hb_option_t *next_positional(const hb_program_t *program, size_t *cursor) {
    while (*cursor < program->count) {
        const hb_option_t *option = &program->options[(*cursor)++];
        if (option->positional) {
            return option;
        }
    }
    return NULL;
}

/* Takes the argument at argv[at] and returns the index of the last word it used. */
static int take_argument(const hb_program_t *program, int argc, char **argv, int at,
                         size_t *cursor) {
    const char *word = argv[at];
    if (strncmp(word, "--", 2) != 0) {
        const hb_option_t *option = next_positional(program, cursor);
        if (option == NULL) {
            usage_error("unexpected argument ", word, NULL, NULL);
        }
        set_value(option, option->name, word);
        return at;
    }
    const char *name = word + 2;
    const size_t length = strcspn(name, "=");
    const hb_option_t *option = find_option(program, name, length);
    if (option == NULL) {
        usage_error("unknown option ", word, NULL, NULL);
    }
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    if (option->kind == HB_FLAG) {
        if (value != NULL) {
            usage_error("no value is taken by ", word, NULL, NULL);
        }
    } else if (value == NULL) {
        value = ++at < argc ? argv[at] : NULL;
        if (value == NULL) {
            usage_error("a value is missing after ", word, NULL, NULL);
        }
    }
    set_value(option, option->name, value);
    return at;
}

void hb_options_parse(const hb_program_t *program, int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help(program, argv[0]);
        }
        hb_smoke |= strcmp(argv[i], "--smoke") == 0;
    }
    refuse_unknown_environment(program);
    for (size_t i = 0; i < program->count; i++) {
        const hb_option_t *option = &program->options[i];
        const char *start = hb_smoke && option->smoke ? option->smoke : option->start;
        if (start != NULL) {
            set_value(option, option->name, start);
        }
        set_from_environment(option);
    }
    size_t cursor = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--smoke") != 0) {
            i = take_argument(program, argc, argv, i, &cursor);
        }
    }
}

void hb_options_json(hb_text_t *text, const hb_program_t *program) {
    hb_text_add(text, "{");
    for (size_t i = 0; i < program->count; i++) {
        const hb_option_t *option = &program->options[i];
        hb_text_add(text, i ? ",\"" : "\"");
        for (const char *c = option->name; *c != '\0'; c++) {
            hb_text_add(text, "%c", *c == '-' ? '_' : *c);
        }
        hb_text_add(text, "\":");
        switch (option->kind) {
        case HB_UINT:
            if (option->words != NULL && *(uint64_t *)option->value == 0) {
                hb_text_add_json(text, option->words);
            } else {
                hb_text_add(text, "%" PRIu64, *(uint64_t *)option->value);
            }
            break;
        case HB_REAL:
            hb_text_add(text, "%.9g", *(double *)option->value);
            break;
        case HB_WORD:
            add_word(text, option->words, *(unsigned *)option->value);
            break;
        case HB_TEXT:
            hb_text_add_json(text, *(const char **)option->value);
            break;
        case HB_FLAG:
            hb_text_add(text, *(bool *)option->value ? "true" : "false");
            break;
        }
    }
    hb_text_add(text, "}");
}
