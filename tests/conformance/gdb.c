// gdb runs a program under the allocator to its end, with a breakpoint in main.
#include "tools.h"

int main(int argc, char **argv) {
    static said_t said;
    if (begin(argc, argv) != NULL) {
        churn(2000, MIB, 1);
        return 0;
    }
    const char *preload = getenv("LD_PRELOAD");
    char set[4200];
    snprintf(set, sizeof set, "set environment LD_PRELOAD %s", preload != NULL ? preload : "");
    const char *command[] = {
        "gdb",          "-nx", "-batch",   "-ex",        "set startup-with-shell off",
        "-ex",          set,   "-ex",      "break main", "-ex",
        "run",          "-ex", "continue", "--args",     beside(""),
        "--stage=work", NULL};
    run_tool(&said, false, command);
    PROMISE(strstr(said.text, "Breakpoint 1, main") != NULL, "the breakpoint in main was not hit");
    PROMISE(strstr(said.text, "exited normally") != NULL, "under gdb: %s", line_with(&said, "SIG"));
    return 0;
}
