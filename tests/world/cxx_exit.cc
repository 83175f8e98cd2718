// After main: atexit and on_exit handlers, static destructors and destructor functions free old
// blocks and allocate new ones, while a detached thread goes on allocating. Each handler reports
// through a pipe, so that one that never ran is a failure.
#include "process.h"

#include <cstring>
#include <map>
#include <pthread.h>
#include <string>

namespace {

int report_fd = -1;
char *old_block = nullptr;
std::map<int, std::string> early_map;

void report(char who) { CHECK(write(report_fd, &who, 1) == 1, "pipe"); }

void replace_old_block(char who) {
    if (report_fd < 0)
        return; // the parent ends without handlers
    for (std::size_t n = 1; n < 2000000; n *= 3) {
        free(old_block);
        old_block = static_cast<char *>(std::memset(malloc(n), who, n));
    }
    report(who);
}

struct Static {
    std::string text = std::string(3000, 's');
    ~Static() {
        CHECK(text[2999] == 's', "static object");
        replace_old_block('s');
    }
} static_object;

void handler() { replace_old_block('a'); }
void status_handler(int, void *block) {
    free(block);
    replace_old_block('o');
}

__attribute__((destructor(101))) void last_destructor() { replace_old_block('d'); }

void *run(void *) {
    for (;;) {
        std::string *text = new std::string(200, 'x');
        free(malloc(70000));
        delete text;
    }
}

[[noreturn]] void be_child(int fd) {
    watchdog(20);
    report_fd = fd;
    for (int i = 0; i < 1000; i++)
        early_map[i] = std::string(static_cast<std::size_t>(i), 'm');
    CHECK(std::atexit(handler) == 0 && on_exit(status_handler, malloc(5000)) == 0, "atexit");
    pthread_t id;
    CHECK(pthread_create(&id, nullptr, run, nullptr) == 0, "pthread_create");
    CHECK(pthread_detach(id) == 0, "pthread_detach");
    std::exit(0);
}

} // namespace

int main() {
    world_begin(60);
    for (int round = 0; round < 30; round++) {
        int ends[2];
        CHECK(pipe(ends) == 0, "pipe");
        pid_t child = fork();
        CHECK(child >= 0, "fork");
        if (child == 0)
            be_child(ends[1]);
        close(ends[1]);
        char reports[16] = "";
        std::size_t n = 0;
        for (ssize_t got; (got = read(ends[0], reports + n, sizeof reports - 1 - n)) > 0;)
            n += static_cast<std::size_t>(got);
        close(ends[0]);
        CHECK_CHILD_OK(child, "exit with handlers that allocate");
        CHECK(std::strcmp(reports, "oasd") == 0, "handlers that ran: %s", reports);
    }
    return 0;
}
