/* SPDX-License-Identifier: MIT
 * docs/slow.md: counts the distinct words of a text, slowly. With -DFIXED: quickly. */
#include <algorithm>
#include <cstdio>
#include <string>
#include <unordered_set>
#include <vector>

class dictionary {
#ifdef FIXED
  std::unordered_set<std::string> words;

public:
  void add(const std::string &word) { words.insert(word); }
#else
  std::vector<std::string> words;

public:
  void add(const std::string &word) {
    if (std::find(words.begin(), words.end(), word) == words.end()) // compares with every word so far
      words.push_back(word);
  }
#endif
  std::size_t size() const { return words.size(); }
};

static std::vector<std::string> read_text() {
  std::vector<std::string> text;
  for (int i = 0; i < 60000; i++)
    text.push_back("a word of the text, number " + std::to_string(i * 7919 % 15013));
  return text;
}

int main() {
  dictionary all;
  for (const std::string &word : read_text())
    all.add(word);
  std::printf("%zu distinct words\n", all.size());
}
