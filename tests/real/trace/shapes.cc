// SPDX-License-Identifier: MIT
//
// As shapes.c, of what only C++ has: shapes++ NAME.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define KEEP __attribute__((noinline))

static volatile long sink;

struct Guard {
  KEEP Guard() { sink = sink + 1; }
  KEEP ~Guard() { sink = sink - 1; }
};

KEEP static long fall(int n) {
  Guard guard;
  if (!n) throw std::runtime_error("down");
  return fall(n - 1) + 1;
}
KEEP static void catch_it(int n) {
  try {
    sink = fall(n);
  } catch (const std::exception &e) {
    sink = sink + e.what()[0];
  }
}
static void shape_throw() {
  for (int i = 0; i < 5; i++)
    catch_it(i);
}
KEEP static void rethrow(int n) {
  try {
    fall(n);
  } catch (...) {
    Guard guard;
    throw;
  }
}
static void shape_rethrow() {
  for (int i = 0; i < 5; i++)
    try {
      rethrow(i);
    } catch (...) {
      sink = sink + 1;
    }
}

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};
struct Square : Shape {
  double a;
  explicit Square(double x) : a(x) {}
  KEEP double area() const override { return a * a; }
};
struct Circle : Shape {
  double r;
  explicit Circle(double x) : r(x) {}
  KEEP double area() const override { return 3 * r * r; }
};
static void shape_virtual() {
  std::vector<std::unique_ptr<Shape>> all;
  for (int i = 0; i < 8; i++)
    if (i % 2)
      all.push_back(std::make_unique<Square>(i));
    else
      all.push_back(std::make_unique<Circle>(i));
  double sum = 0;
  for (auto &s : all)
    sum += s->area();
  sink = static_cast<long>(sum);
}

static void shape_library() {
  std::map<std::string, int> m;
  for (int i = 0; i < 30; i++)
    m[std::to_string(i % 7)] += i;
  for (auto &e : m)
    sink = sink + e.second;
}

static void shape_lambda() {
  std::vector<int> v{3, 1, 2, 5, 4};
  std::function<int(int)> f = [&](int n) { return n > 0 ? f(n - 1) + v[0] : 0; };
  std::sort(v.begin(), v.end(), [](int a, int b) { return a < b; });
  sink = f(5);
}

template <int N> struct Count {
  KEEP static long run(long x) { return Count<N - 1>::run(x + N); }
};
template <> struct Count<0> {
  KEEP static long run(long x) { return x; }
};
static void shape_template() { sink = Count<20>::run(1); }

int main(int argc, char **argv) {
  if (argc < 2) return 2;
#define RUN(name)                                                                                  \
  if (!strcmp(argv[1], #name)) {                                                                   \
    shape_##name();                                                                                \
    return 0;                                                                                      \
  }
  RUN(throw) RUN(rethrow) RUN(virtual) RUN(library) RUN(lambda) RUN(template)
  return 2;
}
