// SPDX-License-Identifier: MIT
// fault: a node owns its parent and the parent owns the node: shared_ptr frees neither
// culprit: add_child, parse_document
// kind: leak, never freed, grow, grew, unreachable
// record: --malloc=all
// build: g++ -O1 -g
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct node {
  std::string tag;
  std::shared_ptr<node> parent; // should be weak
  std::vector<std::shared_ptr<node>> children;
};

static __attribute__((noinline)) std::shared_ptr<node>
add_child(const std::shared_ptr<node> &parent, std::string tag) {
  auto n = std::make_shared<node>();
  n->tag = std::move(tag);
  n->parent = parent;
  parent->children.push_back(n);
  return n;
}

static __attribute__((noinline)) std::shared_ptr<node> parse_document(int number) {
  auto root = std::make_shared<node>();
  root->tag = "document";
  for (int i = 0; i < 20; i++) {
    auto section = add_child(root, "a section with a long title " + std::to_string(number));
    for (int j = 0; j < 5; j++)
      add_child(section, "paragraph");
  }
  return root;
}

static __attribute__((noinline)) size_t count_nodes(const node &n) {
  size_t count = 1;
  for (const auto &child : n.children)
    count += count_nodes(*child);
  return count;
}

static __attribute__((noinline)) size_t index_document(int number) {
  auto document = parse_document(number);
  return count_nodes(*document);
}

int main() {
  size_t nodes = 0;
  for (int i = 0; i < 1500; i++) {
    nodes += index_document(i);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf("%zu\n", nodes);
}
