// thread_local objects whose destructors free and allocate, in threads that end and in main.
#include "process.h"

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

enum { THREADS = 200 };
std::atomic<int> destroyed{0};

struct Registry {
    std::map<int, std::string> names;
    std::vector<std::unique_ptr<char[]>> buffers;
    ~Registry() {
        std::vector<std::string> copies;
        for (const auto &entry : names)
            copies.push_back(entry.second + " of a thread that is about to end");
        buffers.clear();
        CHECK(copies.size() == 100 && copies[99][0] == 'n', "thread_local map lost its contents");
        destroyed++;
    }
};

thread_local Registry registry;
thread_local std::string lazily; // destroyed before registry: constructed after it

void use(int seed) {
    for (int i = 0; i < 100; i++)
        registry.names[i] = "name number " + std::to_string(i * seed);
    for (std::size_t i = 0; i < 50; i++)
        registry.buffers.push_back(std::make_unique<char[]>(i * 1000));
    lazily.assign(static_cast<std::size_t>(seed) * 10 + 100, 'x');
}

} // namespace

int main() {
    world_begin(60);
    use(1);
    for (int round = 0; round < THREADS / 4; round++) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; i++)
            threads.emplace_back(use, round * 4 + i);
        for (std::thread &thread : threads)
            thread.join();
    }
    CHECK(destroyed == THREADS, "%d thread_local destructors ran", destroyed.load());
    return 0;
}
