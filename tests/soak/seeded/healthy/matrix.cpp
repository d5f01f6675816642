// SPDX-License-Identifier: MIT
// does: a matrix product with all cores, each the whole time
// record: --sample --wall --stall
// build: g++ -O2 -g -pthread
#include <cstdio>
#include <thread>
#include <vector>

static constexpr size_t N = 640;
static std::vector<double> a(N *N, 1.5), b(N *N, 0.25), c(N *N);

static void multiply_rows(size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    for (size_t k = 0; k < N; k++)
      for (size_t j = 0; j < N; j++)
        c[i * N + j] += a[i * N + k] * b[k * N + j];
}

int main() {
  unsigned cores = std::thread::hardware_concurrency();
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < cores; i++)
    threads.emplace_back(multiply_rows, N * i / cores, N * (i + 1) / cores);
  for (auto &t : threads)
    t.join();
  std::printf("%f\n", c[N * N / 2]);
}
