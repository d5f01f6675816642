// SPDX-License-Identifier: MIT
// does: an arena of chunks that is emptied after each request and keeps its chunks
// record: --malloc=all
// build: g++ -O2 -g
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

class arena {
public:
  void *take(size_t bytes) {
    bytes = (bytes + 15) & ~size_t{15};
    if (used_ + bytes > CHUNK) {
      current_++;
      used_ = 0;
    }
    if (current_ >= chunks_.size()) chunks_.push_back(std::make_unique<std::byte[]>(CHUNK));
    void *p = chunks_[current_].get() + used_;
    used_ += bytes;
    return p;
  }
  void empty() { current_ = used_ = 0; }

private:
  static constexpr size_t CHUNK = 1 << 18;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  size_t current_ = 0, used_ = 0;
};

static size_t handle(arena &a, int number) {
  size_t sum = 0;
  for (int i = 0; i < 3000; i++) {
    size_t length = 20 + static_cast<size_t>(number + i) % 700;
    char *text = static_cast<char *>(a.take(length));
    std::memset(text, i, length);
    sum += static_cast<unsigned char>(text[length / 2]);
  }
  a.empty();
  return sum;
}

int main() {
  arena a;
  size_t sum = 0;
  for (int i = 0; i < 1000; i++) {
    sum += handle(a, i);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::printf("%zu\n", sum);
}
