// Many instantiations for the compiler, and a program that allocates from several threads.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

template <std::size_t N> struct Padded {
    std::array<std::uint64_t, N + 1> words{};
    explicit Padded(std::uint64_t seed) { std::iota(words.begin(), words.end(), seed); }
    std::uint64_t sum() const { return std::accumulate(words.begin(), words.end(), 0ULL); }
};

// One map, one list of owners and one visitor for each size.
template <std::size_t N> std::uint64_t churn(std::uint64_t seed) {
    std::map<std::string, std::unique_ptr<Padded<N>>> owners;
    std::unordered_map<std::uint64_t, std::vector<Padded<N>>> groups;
    for (std::uint64_t i = 0; i < 300; i++) {
        owners[std::to_string(i * seed % 211)] = std::make_unique<Padded<N>>(i);
        groups[i % 7].emplace_back(i ^ seed);
    }
    std::uint64_t total = 0;
    for (const auto &[name, owner] : owners)
        total += owner->sum() * name.size();
    for (auto &[key, group] : groups) {
        std::sort(group.begin(), group.end(),
                  [](const auto &a, const auto &b) { return a.sum() > b.sum(); });
        total += group.front().sum() * (key + 1);
    }
    return total;
}

template <std::size_t... N> std::uint64_t churn_all(std::index_sequence<N...>) {
    std::vector<std::future<std::uint64_t>> parts;
    (parts.push_back(std::async(std::launch::async, churn<N * 3>, N + 1)), ...);
    return std::accumulate(parts.begin(), parts.end(), 0ULL, [](std::uint64_t sum, auto &part) {
        return sum * 31 + part.get();
    });
}

using Value = std::variant<std::monostate, std::int64_t, std::string, std::vector<std::string>>;

static std::string describe(const Value &value) {
    return std::visit(
        [](const auto &held) -> std::string {
            using Held = std::decay_t<decltype(held)>;
            if constexpr (std::is_same_v<Held, std::monostate>)
                return "nothing";
            else if constexpr (std::is_same_v<Held, std::int64_t>)
                return std::to_string(held);
            else if constexpr (std::is_same_v<Held, std::string>)
                return "'" + held + "'";
            else
                return std::accumulate(held.begin(), held.end(), std::string("words:"));
        },
        value);
}

int main() {
    std::cout << churn_all(std::make_index_sequence<6>()) << '\n';
    const std::string text = "alpha=1, beta=22, gamma=333";
    const std::regex pair("([a-z]+)=([0-9]+)");
    std::vector<Value> values{std::monostate{}, std::int64_t{7}};
    for (std::sregex_iterator it(text.begin(), text.end(), pair), end; it != end; ++it) {
        values.emplace_back(it->str(1));
        values.emplace_back(std::vector<std::string>{it->str(2), it->str(1)});
    }
    for (const Value &value : values)
        std::cout << describe(value) << '\n';
    return 0;
}
