// SPDX-License-Identifier: MIT
// fault: a recursive parser has no limit for nested input
// culprit: parse_value, parse_list
// kind: stack overflow, overflowed its stack, recurs
// symptom: crash, abort
// record:
// build: g++ -O1 -g
#include <cctype>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

struct value {
  long number = 0;
  std::vector<std::unique_ptr<value>> items;
};

class parser {
public:
  explicit parser(const std::string &text) : text_(text) {}
  std::unique_ptr<value> parse() { return parse_value(); }

private:
  __attribute__((noinline)) std::unique_ptr<value> parse_value() {
    skip_space();
    if (peek() == '[') return parse_list();
    auto v = std::make_unique<value>();
    v->number = parse_number();
    return v;
  }
  __attribute__((noinline)) std::unique_ptr<value> parse_list() {
    char context[128];
    std::snprintf(context, sizeof context, "list at %zu", at_);
    auto v = std::make_unique<value>();
    at_++;
    while (peek() != ']' && peek()) {
      v->items.push_back(parse_value());
      skip_space();
      if (peek() == ',') at_++;
    }
    at_++;
    v->number = context[0];
    return v;
  }
  long parse_number() {
    long n = 0;
    while (std::isdigit(static_cast<unsigned char>(peek())))
      n = n * 10 + (text_[at_++] - '0');
    return n;
  }
  void skip_space() {
    while (peek() == ' ')
      at_++;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : 0; }

  const std::string &text_;
  size_t at_ = 0;
};

static std::string good_input() {
  std::string text = "[";
  for (int i = 0; i < 1000; i++)
    text += std::to_string(i) + ", [1, 2, [3]],";
  return text + "0]";
}

int main() {
  std::string good = good_input();
  size_t count = 0;
  for (int i = 0; i < 50; i++)
    count += parser(good).parse()->items.size();
  std::string bad(500000, '[');
  count += parser(bad).parse()->items.size();
  std::printf("%zu\n", count);
}
