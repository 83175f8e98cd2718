// C++ objects that are thread_local may allocate and free in their destructors, at a thread's end.
#include "promise.h"

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<long> destroyed{0};

struct Owner {
    std::map<int, std::string> texts;
    void *raw = malloc(3000);
    Owner() { fill(raw, 3000, 9); }
    ~Owner() {
        PROMISE(intact(raw, 3000, 9), "a block changed before its owner's destructor");
        std::vector<std::string> late;
        for (auto &[number, text] : texts) {
            PROMISE(text.size() == 100, "text %d has %zu characters", number, text.size());
            late.push_back(text + "and more of it");
        }
        free(raw);
        churn(5, 16 * KIB, 3);
        destroyed++;
    }
};

thread_local Owner owner;

void work() {
    for (int i = 0; i < 20; i++)
        owner.texts[i] = std::string(100, 'x');
}

} // namespace

int main(int argc, char **argv) {
    begin(argc, argv);
    const long rounds = scaled(3000, 200);
    for (long i = 0; i < rounds; i++) {
        std::thread threads[] = {std::thread(work), std::thread(work), std::thread(work)};
        for (std::thread &thread : threads)
            thread.join();
    }
    PROMISE(destroyed == 3 * rounds, "%ld destructors ran", destroyed.load());
    work();
    return 0;
}
