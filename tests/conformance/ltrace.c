// ltrace follows a program under the allocator to its end.
#include "tools.h"

int main(int argc, char **argv) {
    static said_t said;
    if (begin(argc, argv) != NULL) {
        churn(300, MIB, 1);
        return 0;
    }
    const char *command[] = {"ltrace", "-e", "malloc+free", beside(""), "--stage=work", NULL};
    run_tool(&said, true, command);
    PROMISE(strstr(said.text, "exited (status 0)") != NULL, "under ltrace: %s",
            line_with(&said, "+++"));
    return 0;
}
