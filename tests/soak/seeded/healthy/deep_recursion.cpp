// SPDX-License-Identifier: MIT
// does: walks a tree that is 20,000 levels deep, within its stack
// record:
// build: g++ -O1 -g
#include <cstdio>
#include <memory>
#include <vector>

struct tree {
  int value;
  tree *left, *right;
};

static std::vector<std::unique_ptr<tree>> all;

static tree *make(int value, tree *left, tree *right) {
  all.push_back(std::make_unique<tree>(tree{value, left, right}));
  return all.back().get();
}

static long sum_of(const tree *t) {
  if (!t) return 0;
  long left = sum_of(t->left), right = sum_of(t->right);
  return t->value + left + right;
}

int main() {
  tree *t = nullptr;
  for (int i = 0; i < 20000; i++)
    t = make(i, t, i % 3 ? nullptr : make(1, nullptr, nullptr));
  long sum = 0;
  for (int i = 0; i < 1500; i++)
    sum += sum_of(t) % 100;
  std::printf("%ld\n", sum);
}
