// SPDX-License-Identifier: MIT
// fault: an image filter writes one row too many and destroys the allocator's data
// culprit: blur_rows
// site: make_plane, malloc, run_filters
// kind: overflow, overwrit, past the end, corrupt, heap
// symptom: crash, abort
// record: --malloc=all
// build: g++ -O1 -g
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

struct plane {
  int width, height;
  uint8_t *data;
};

static __attribute__((noinline)) plane make_plane(int width, int height) {
  plane p{width, height, static_cast<uint8_t *>(std::malloc(static_cast<size_t>(width * height)))};
  std::memset(p.data, 0x5a, static_cast<size_t>(width * height));
  return p;
}

static __attribute__((noinline)) void brighten(plane &p, int by) {
  for (int i = 0; i < p.width * p.height; i++)
    p.data[i] = static_cast<uint8_t>(p.data[i] + by);
}

static __attribute__((noinline)) void blur_rows(plane &out, const plane &in, int radius) {
  // The last row of a window with an odd radius belongs to no row of OUT.
  int last = in.height + (radius & 1);
  for (int y = 0; y < last; y++)
    for (int x = 0; x < in.width; x++) {
      int from = y < in.height ? y : in.height - 1;
      int left = x ? in.data[from * in.width + x - 1] : 255;
      out.data[y * out.width + x] =
          static_cast<uint8_t>((left + in.data[from * in.width + x]) / 2 | 1);
    }
}

static __attribute__((noinline)) unsigned sum_of(const plane &p) {
  unsigned sum = 0;
  for (int i = 0; i < p.width * p.height; i++)
    sum += p.data[i];
  return sum;
}

static __attribute__((noinline)) unsigned run_filters(int round) {
  plane in = make_plane(64 + round % 8 * 8, 32), out = make_plane(in.width, in.height);
  brighten(in, round);
  blur_rows(out, in, round < 100 ? 2 : 3);
  plane scaled = make_plane(in.width * 2, in.height * 2);
  unsigned sum = sum_of(out) + sum_of(scaled);
  std::free(scaled.data);
  std::free(in.data);
  std::free(out.data);
  return sum;
}

int main() {
  unsigned sum = 0;
  for (int round = 0; round < 400; round++)
    sum += run_filters(round);
  std::printf("%u\n", sum);
}
