// SPDX-License-Identifier: MIT
//
// One part of a large program: 24 classes of standard containers have some 5 MB of debug information.
#include <algorithm>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

template <int N> struct part {
  using value = std::variant<int, double, std::string>;
  std::map<std::string, std::vector<value>> index;
  std::unordered_map<std::string, std::set<std::pair<int, std::string>>> names;

  int add(const std::string &text) {
    std::stringstream words(text);
    for (std::string word; words >> word; names[word].insert({N, word}))
      index[word].push_back(N % 2 ? value(N) : value(word));
    std::vector<std::string> sorted;
    for (auto &[name, values] : index) sorted.push_back(name);
    std::sort(sorted.begin(), sorted.end(), [](auto &a, auto &b) { return a.size() + N < b.size(); });
    return std::regex_search(text, std::regex("a+b" + std::to_string(N))) + (int)sorted.size();
  }
};

template <int... N> static int add_to_all(std::integer_sequence<int, N...>, const std::string &text) {
  return (std::make_unique<part<N>>()->add(text) + ...);
}

extern "C" int unit_add(const char *text) { return add_to_all(std::make_integer_sequence<int, 24>(), text); }

// Calls the next one of STEPS.
extern "C" int unit_step(void *steps) {
  int (**next)(void *) = (int (**)(void *))steps;
  volatile int result = next[0](next + 1);
  return result;
}
