/* The formatter of lines, compared with the C library's; numbers and words that are read. */
#include "base/report.h"

#include "check.h"

#define SAME(...)                                                                                  \
    do {                                                                                           \
        char expected[256];                                                                        \
        hk_line_t line = {0};                                                                      \
        snprintf(expected, sizeof expected, __VA_ARGS__);                                          \
        hk_line_put(&line, __VA_ARGS__);                                                           \
        CHECK(strcmp(hk_line_text(&line), expected) == 0);                                         \
    } while (0)

static void as_printf(void) {
    SAME("%s%s", "one", "");
    SAME("[%6s][%-6s][%2s]", "four", "four", "four");
    SAME("[%-*s][%.*s][%.*s]", 7, "wide", 3, "cut off", 9, "whole");
    SAME("[%lu][%lu][%4lu][%-4lu][%09lu]", 0ul, UINT64_MAX, 42ul, 42ul, 42ul);
    SAME("[%lx][%#lx][%04lx]", UINT64_MAX, 48879ul, 31ul);
}

/* What does not fit is left out, and the line can still be ended. */
static void full(void) {
    hk_line_t line = {0};
    for (unsigned i = 0; i < 600; i++)
        hk_line_put(&line, "%s%lu", "a", 7ul);
    CHECK_EQ(line.len, sizeof line.text - 1);
    CHECK_EQ(strlen(hk_line_text(&line)), sizeof line.text - 1);
}

static bool reads(const char *s, uint64_t expected, const char *behind) {
    uint64_t value = 0;
    const char *at = s;
    return hk_parse(&at, &value) && value == expected && strcmp(at, behind) == 0;
}

static void numbers(void) {
    CHECK(reads("0", 0, "") && reads("0042 kB", 42, " kB"));
    CHECK(reads("18446744073709551615", UINT64_MAX, ""));
    CHECK(!reads("18446744073709551616", 0, "") && !reads("99999999999999999999", 0, ""));
    CHECK(!reads("", 0, "") && !reads("-1", 0, "-1") && !reads(" 1", 1, ""));
}

static void words(void) {
    uint64_t number = 99;
    CHECK(hk_word_find("a|bc|b", "b", 1, &number) && number == 2);
    CHECK(hk_word_find("a|bc|b", "bcd", 2, &number) && number == 1);
    CHECK(!hk_word_find("a|bc|b", "", 0, &number) && !hk_word_find("a|bc|b", "c", 1, &number));
    CHECK(hk_word_find("a||b", "", 0, &number) && number == 1);
    CHECK(strcmp(hk_word_at("a|bc|b", 1), "bc|b") == 0 && hk_word_at("a|bc|b", 3) == NULL);
}

int main(void) {
    as_printf();
    full();
    numbers();
    words();
    return 0;
}
