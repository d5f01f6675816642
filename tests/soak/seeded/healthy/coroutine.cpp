// SPDX-License-Identifier: MIT
// does: a generator of numbers by coroutines
// record: --malloc=all --sample
// build: g++ -std=c++20 -O2 -g
#include <coroutine>
#include <cstdio>
#include <exception>

class numbers {
public:
  struct promise_type {
    long current = 0;
    numbers get_return_object() {
      return numbers(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(long n) {
      current = n;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  explicit numbers(std::coroutine_handle<promise_type> h) : handle_(h) {}
  numbers(const numbers &) = delete;
  numbers &operator=(const numbers &) = delete;
  ~numbers() { handle_.destroy(); }
  bool next() {
    handle_.resume();
    return !handle_.done();
  }
  long value() const { return handle_.promise().current; }

private:
  std::coroutine_handle<promise_type> handle_;
};

static numbers squares(long count) {
  for (long i = 0; i < count; i++)
    co_yield i *i % 1009;
}

int main() {
  long sum = 0;
  for (int round = 0; round < 3000; round++) {
    numbers n = squares(10000);
    while (n.next())
      sum += n.value();
  }
  std::printf("%ld\n", sum);
}
