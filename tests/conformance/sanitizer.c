// A program built with AddressSanitizer refuses clearly or, told not to check, runs to its end.
#include "tools.h"

int main(int argc, char **argv) {
    static said_t said;
    begin(argc, argv);
    const char *path = beside("/parts/sanitized");
    if (access(path, X_OK) != 0)
        CANNOT_CHECK("this compiler has no AddressSanitizer");
    const char *command[] = {path, NULL};
    run_tool(&said, true, command);
    PROMISE(strstr(said.text, "to its end") != NULL ||
                strstr(said.text, "runtime does not come first") != NULL,
            "it neither ran nor said why: %s", line_with(&said, "ERROR"));
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    run_tool(&said, true, command);
    PROMISE(said.status == 0, "its link order not checked: wait status %#x, %s",
            (unsigned)said.status, line_with(&said, "ERROR"));
    return 0;
}
