// A correct C++ program that uses every form of new and delete, and threads that share blocks.
#ifndef CONFORMANCE_OPERATORS_H
#define CONFORMANCE_OPERATORS_H

#include "tools.h"

#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

struct alignas(64) Wide {
    char bytes[192];
};

inline void every_operator() {
    delete new int(1);
    delete[] new int[100];
    delete new Wide;
    delete[] new Wide[3];
    delete new (std::nothrow) std::string("text");
    delete[] new (std::nothrow) std::string[5];
    ::operator delete(::operator new(100), std::size_t(100));
    ::operator delete[](::operator new[](100), std::size_t(100));
    std::align_val_t align{128};
    ::operator delete(::operator new(256, align), align);
    ::operator delete[](::operator new[](256, align), std::size_t(256), align);
    ::operator delete(::operator new(256, align, std::nothrow), align, std::nothrow);
    ::operator delete(::operator new(70, std::nothrow), std::nothrow);
    free(realloc(calloc(3, 10), 5000));
    void *aligned = nullptr;
    if (posix_memalign(&aligned, 256, 1000) == 0)
        free(aligned);
    free(aligned_alloc(64, 128)), free(memalign(32, 100)), free(strdup("text"));
}

inline void shared_between_threads() {
    std::mutex mutex;
    std::vector<std::unique_ptr<std::string>> texts;
    auto work = [&] {
        for (int i = 0; i < 200; i++) {
            auto text = std::make_unique<std::string>(std::size_t(i), 'x');
            std::lock_guard guard(mutex);
            texts.push_back(std::move(text));
            if (texts.size() > 20)
                texts.erase(texts.begin(), texts.begin() + 10);
        }
    };
    std::thread other(work);
    work();
    other.join();
}

// Runs this program as --stage=work under valgrind's tool, which must not find anything.
inline void under_valgrind(const char *tool) {
    static said_t said;
    std::string which = std::string("--tool=") + tool;
    const char *command[] = {"valgrind", "-q",           which.c_str(), "--error-exitcode=99",
                             beside(""), "--stage=work", nullptr};
    run_tool(&said, true, command);
    PROMISE(WIFEXITED(said.status), "valgrind ended by a signal: %s", line_with(&said, "=="));
    PROMISE(said.status == 0 && said.text[0] == '\0', "%s in a correct program: %s (status %d)",
            tool, line_with(&said, "=="), WEXITSTATUS(said.status));
}

#endif
