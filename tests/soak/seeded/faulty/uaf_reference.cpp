// SPDX-License-Identifier: MIT
// fault: a reference into a vector is used after push_back has moved the elements
// culprit: add_points, merge_track
// kind: use after free, freed, unmapped
// symptom: crash, abort
// record: --malloc=all
// build: g++ -O1 -g
#include <cmath>
#include <cstdio>
#include <vector>

struct sample {
  double x, y, weight;
  int track;
};

class recorder {
public:
  sample &first() { return samples_.front(); }
  void add(double x, double y, int track) { samples_.push_back({x, y, 1.0, track}); }
  size_t count() const { return samples_.size(); }
  double length() const {
    double sum = 0;
    for (size_t i = 1; i < samples_.size(); i++)
      sum += std::hypot(samples_[i].x - samples_[i - 1].x, samples_[i].y - samples_[i - 1].y);
    return sum;
  }

private:
  std::vector<sample> samples_;
};

static __attribute__((noinline)) void add_points(recorder &r, int track, int count) {
  sample &anchor = r.first(); // refers to the old array once the vector grows
  for (int i = 0; i < count; i++) {
    r.add(anchor.x + i * 0.5, anchor.y + std::sin(i), track);
    anchor.weight += 0.25;
  }
}

static __attribute__((noinline)) double merge_track(recorder &r, int track) {
  add_points(r, track, 4000 + track * 10);
  return r.length();
}

int main() {
  recorder r;
  r.add(0, 0, 0);
  for (int i = 0; i < 3000; i++)
    r.add(i, i * 0.1, 0);
  double total = 0;
  for (int track = 1; track < 40; track++)
    total += merge_track(r, track);
  std::printf("%zu samples, %f\n", r.count(), total);
}
