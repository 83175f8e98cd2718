// Static programs, to which no allocator can be preloaded, run as if nothing were.
#include "tools.h"

int main(int argc, char **argv) {
    static said_t said;
    begin(argc, argv);
    const char *const names[] = {"/parts/static", "/parts/static_pie"};
    for (int i = 0; i < 2; i++) {
        const char *command[] = {beside(names[i]), NULL};
        if (access(command[0], X_OK) != 0)
            CANNOT_CHECK("no static C library was there to build with");
        run_tool(&said, true, command);
        PROMISE(said.status == 0 && strcmp(said.text, "to its end\n") == 0,
                "%s: wait status %#x, it said: %s", names[i], (unsigned)said.status, said.text);
    }
    return 0;
}
