// SPDX-License-Identifier: MIT
// fault: a function that looks at one cell takes the whole grid by value
// culprit: neighbors, step
// kind: CPU, allocations, temporary, copy, copies
// record:
// build: g++ -O2 -g
#include <cstdio>
#include <vector>

using grid = std::vector<unsigned char>;
static constexpr int SIZE = 96;

static __attribute__((noinline)) int neighbors(grid g, int x, int y) { // by value
  int count = 0;
  for (int dy = -1; dy <= 1; dy++)
    for (int dx = -1; dx <= 1; dx++)
      if (dx || dy)
        count += g[static_cast<size_t>((y + dy + SIZE) % SIZE * SIZE + (x + dx + SIZE) % SIZE)];
  return count;
}

static __attribute__((noinline)) grid step(const grid &g) {
  grid next(g.size());
  for (int y = 0; y < SIZE; y++)
    for (int x = 0; x < SIZE; x++) {
      int n = neighbors(g, x, y);
      size_t at = static_cast<size_t>(y * SIZE + x);
      next[at] = n == 3 || (n == 2 && g[at]);
    }
  return next;
}

static __attribute__((noinline)) grid random_grid() {
  grid g(SIZE * SIZE);
  unsigned seed = 1;
  for (auto &cell : g) {
    seed = seed * 1664525u + 1013904223u;
    cell = seed >> 31;
  }
  return g;
}

static __attribute__((noinline)) int population(const grid &g) {
  int count = 0;
  for (auto cell : g)
    count += cell;
  return count;
}

int main() {
  grid g = random_grid();
  for (int i = 0; i < 800; i++)
    g = step(g);
  std::printf("%d\n", population(g));
}
