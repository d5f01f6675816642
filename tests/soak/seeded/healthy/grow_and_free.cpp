// SPDX-License-Identifier: MIT
// does: memory grows to 60 MB, three times, and is freed each time
// record: --malloc=all
// build: g++ -O1 -g
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

struct tile {
  unsigned char pixels[60000];
};

static size_t render_image(int number) {
  std::vector<std::unique_ptr<tile>> tiles;
  for (int i = 0; i < 1000; i++) {
    tiles.push_back(std::make_unique<tile>());
    tiles.back()->pixels[i] = static_cast<unsigned char>(number + i);
    if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  size_t sum = 0;
  for (auto &t : tiles)
    sum += t->pixels[sum % 1000];
  return sum;
}

int main() {
  size_t sum = 0;
  for (int i = 0; i < 3; i++) {
    sum += render_image(i);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  std::printf("%zu\n", sum);
}
