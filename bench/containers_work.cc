#include "containers_work.h"

#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace {

using value_t = std::array<uint64_t, 3>;

constexpr unsigned longest_string = 80, longest_vector = 64;

value_t value_of(uint64_t key) { return {key, ~key, key * 3}; }

char letter_of(size_t length) { return static_cast<char>('a' + length % 26); }

} // namespace

struct containers {
    uint64_t entries;
    uint32_t x; // of xorshift32
    std::map<uint64_t, value_t> map;
    std::deque<std::string> queue;

    uint32_t next() {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        return x;
    }

    uint32_t below(uint64_t n) { return static_cast<uint32_t>((next() * n) >> 32); }

    // Of twice as many keys as entries half are there, in the long run.
    uint64_t replace_entry() {
        const uint64_t key = below(2 * entries);
        const auto found = map.find(key);
        if (found == map.end()) {
            map.emplace(key, value_of(key));
            return 0;
        }
        const bool damaged = found->second != value_of(key);
        map.erase(found);
        return damaged;
    }

    // The oldest string makes room for one that grows piece by piece.
    uint64_t queue_string(bool verify) {
        const size_t length = 1 + below(longest_string);
        std::string string;
        while (string.size() < length)
            string.append(std::min<size_t>(8, length - string.size()), letter_of(length));
        queue.push_back(std::move(string));
        if (queue.size() <= entries)
            return 0;
        const std::string oldest = std::move(queue.front());
        queue.pop_front();
        const size_t n = oldest.size();
        return verify && (oldest != std::string(n, letter_of(n)) || oldest.c_str()[n] != '\0');
    }

    uint64_t fill_vector(bool verify) {
        const uint32_t n = 1 + below(longest_vector);
        std::vector<uint64_t> vector;
        for (uint32_t i = 0; i < n; i++)
            vector.push_back(i);
        uint64_t damaged = vector.back() != n - 1;
        for (uint32_t i = 0; verify && i < n; i++)
            damaged += vector[i] != i;
        return damaged;
    }
};

containers_t *containers_new(uint64_t entries, uint32_t seed) {
    return new containers{entries, seed, {}, {}};
}

uint64_t containers_run(containers_t *containers, uint64_t rounds, int verify) {
    uint64_t damaged = 0;
    for (uint64_t i = 0; i < rounds; i++)
        damaged += containers->replace_entry() + containers->queue_string(verify != 0) +
                   containers->fill_vector(verify != 0);
    return damaged;
}

void containers_delete(containers_t *containers) { delete containers; }
