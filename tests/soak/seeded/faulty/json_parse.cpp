// SPDX-License-Identifier: MIT
// fault: a parser allocates a node, a string and a vector for each token and throws the tree away
// culprit: make_node, parse_value, parse_string, parse_object, count_users
// kind: temporary, short-lived, allocations, CPU
// record: --malloc=all --sample
// build: g++ -O2 -g
#include <cstdio>
#include <map>
#include <string>
#include <vector>

struct node {
  std::string kind, text;
  std::map<std::string, node *> members;
  std::vector<node *> items;
  ~node() {
    for (auto &m : members)
      delete m.second;
    for (node *n : items)
      delete n;
  }
};

static __attribute__((noinline)) node *make_node(const std::string &kind) {
  node *n = new node;
  n->kind = kind;
  return n;
}

class parser {
public:
  explicit parser(const std::string &text) : text_(text) {}
  __attribute__((noinline)) node *parse_value() {
    switch (text_[at_]) {
    case '{': return parse_object();
    case '[': return parse_array();
    case '"': return parse_string();
    default: return parse_number();
    }
  }

private:
  __attribute__((noinline)) node *parse_object() {
    node *n = make_node("an object with members");
    at_++;
    while (text_[at_] != '}') {
      node *key = parse_string();
      at_++;
      n->members[key->text] = parse_value();
      delete key;
      if (text_[at_] == ',') at_++;
    }
    at_++;
    return n;
  }
  node *parse_array() {
    node *n = make_node("an array with some items");
    at_++;
    while (text_[at_] != ']') {
      n->items.push_back(parse_value());
      if (text_[at_] == ',') at_++;
    }
    at_++;
    return n;
  }
  __attribute__((noinline)) node *parse_string() {
    node *n = make_node("a string of characters");
    for (at_++; text_[at_] != '"'; at_++)
      n->text = n->text + text_[at_];
    at_++;
    return n;
  }
  node *parse_number() {
    node *n = make_node("a number");
    while (text_[at_] >= '0' && text_[at_] <= '9')
      n->text += text_[at_++];
    return n;
  }
  const std::string &text_;
  size_t at_ = 0;
};

static std::string make_input(int users) {
  std::string text = "[";
  for (int i = 0; i < users; i++)
    text += std::string(i ? "," : "") + "{\"name\":\"user with a long name " + std::to_string(i) +
            "\",\"age\":" + std::to_string(i % 90) + ",\"friends\":[1,2,3]}";
  return text + "]";
}

static __attribute__((noinline)) size_t count_users(const std::string &text) {
  node *root = parser(text).parse_value();
  size_t count = root->items.size();
  delete root;
  return count;
}

int main() {
  std::string text = make_input(1500);
  size_t users = 0;
  for (int i = 0; i < 200; i++)
    users += count_users(text);
  std::printf("%zu\n", users);
}
