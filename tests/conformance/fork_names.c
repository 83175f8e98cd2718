// fork does not wait for threads that look up users and hosts, which allocate under locks.
#include "promise.h"

#include <netdb.h>
#include <pwd.h>

static void *looking(void *unused) {
    for (;;) {
        struct passwd entry, *found = NULL;
        char *room = malloc(20000);
        getpwnam_r("root", &entry, room, 20000, &found);
        free(room);
        struct addrinfo hints = {.ai_flags = AI_NUMERICSERV}, *all = NULL;
        if (getaddrinfo("localhost", "80", &hints, &all) == 0)
            freeaddrinfo(all);
    }
    return unused;
}

int main(int argc, char **argv) {
    begin(argc, argv);
    for (int i = 0; i < 4; i++)
        start(looking, NULL);
    for (long i = 0; i < scaled(2000, 100); i++) {
        pid_t pid = child();
        if (pid == 0) { // no look-up here: the C library's own locks may be held
            churn(50, 64 * KIB, 13);
            _exit(0);
        }
        must_end_well(wait_for(pid), "a child");
    }
    return 0;
}
