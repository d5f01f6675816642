/* SPDX-License-Identifier: MIT
 *
 * Uses each class of sonde/sonde.hpp once. usage: scopes trace|malloc FILE
 */
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include <sonde/sonde.hpp>

namespace {

int faults;

void check(bool good, const char *what) {
  if (good) return;
  std::printf("FAILED: %s\n", what);
  faults++;
}
#define CHECK(condition) check(static_cast<bool>(condition), #condition)

/* ---- stacks ---- */

[[gnu::noinline]] sonde::stack_id inner() {
  auto here = sonde::stack<64>::here();
  std::uintptr_t buffer[64];
  sonde::stack_id id = sonde::stack_id::here();
  CHECK(here.status() == 0 && here.pcs().size() > 2);
  CHECK(sonde::function_at(here.pcs()[0]).find("inner") != std::string_view::npos);
  CHECK(sonde::function_at(here.pcs()[1]).find("outer") != std::string_view::npos);
  CHECK(id && id.pcs(buffer).size() == here.pcs().size());
  CHECK(id.pcs(buffer)[1] == here.pcs()[1]);
  int lines = 0;
  for (std::uintptr_t pc : here.pcs())
    lines += pc != 0;
  CHECK(sonde::print(here.pcs().first(2), 1) == 2);
  CHECK(lines == static_cast<int>(here.pcs().size()));
  return id;
}

[[gnu::noinline]] sonde::stack_id outer() {
  sonde::stack_id id = inner();
  CHECK(id);
  return id;
}

void stacks() {
  sonde::stack_id first;
  volatile int count = 3; /* a loop, so that there is one call */
  for (int i = 0; i < count; i++) {
    sonde::stack_id id = outer();
    CHECK(i == 0 || (id == first && !(id != first)));
    first = id;
  }
  auto gone = sonde::stack<8>::of_thread(1 << 30);
  CHECK(gone.status() == SONDE_ENOTHREAD && gone.pcs().empty());
  CHECK(sonde::stack<8>::of_thread(sonde_main_thread()).status() == 0);
}

/* ---- recordings ---- */

void allocations(const char *path) {
  sonde::malloc_log log(path, SONDE_MALLOC_LIVE);
  CHECK(log.status() == 0);
  CHECK(sonde::malloc_log(path).status() == SONDE_EBUSY);
  void *volatile block = std::malloc(4321);
  int found = 0;
  std::uintptr_t buffer[32];
  auto count = sonde::each_block([&](const sonde_block_t &each) {
    if (each.size != 4321) return false;
    found += !sonde::stack_of_block(each, buffer).empty();
    return true;
  });
  CHECK(found == 1 && count > 0);
  std::free(block);
  CHECK(log.stop() == 0);
}

void trace(const char *path) {
  {
    sonde::tracing traced(1 << 20);
    CHECK(traced.status() == 0);
    sonde::trace_scope part("a named part");
  }
  CHECK(sonde_trace_save(path) == 0);
}

/* ---- stalls ---- */

void stalls() {
  std::atomic<int> seen{0};
  sonde::stall_watch watch(
      20, [](const sonde_stall_t *, void *count) { ++*static_cast<std::atomic<int> *>(count); },
      &seen);
  CHECK(watch.status() == 0);
  sonde::stall_scope *scope = nullptr;
  for (int i = 0; i < 5000 && (!scope || scope->status() != 0);
       i++) { /* until the watch has begun */
    delete scope;
    usleep(1000);
    scope = new sonde::stall_scope();
  }
  for (int i = 0; i < 5000 && !seen; i++)
    usleep(1000);
  delete scope;
  CHECK(seen > 0);
  CHECK(sonde::stall_watch(5, nullptr, nullptr).status() == SONDE_EINVAL);
}

/* ---- hooks ---- */

int hooked_calls;
sonde::hook<int(int)> *hooked;

int my_toupper(int x) {
  hooked_calls++;
  return hooked->original(x);
}

void hooks() {
  {
    sonde::hook<int(int)> none("no_such_function", my_toupper);
    CHECK(none.status() == SONDE_ENOTFOUND);
    sonde::hook<int(int)> hook("toupper", my_toupper);
    hooked = &hook;
    CHECK(hook.status() == 0);
    CHECK(toupper('a') == 'A' && hooked_calls == 1);
  }
  CHECK(toupper('b') == 'B' && hooked_calls == 1);
}

} // namespace

int main(int, char **argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  stacks();
  argv[1][0] == 't' ? trace(argv[2]) : allocations(argv[2]); /* a program has one of both */
  stalls();
  hooks();
  CHECK(sonde::audit_log("no policy", 9, nullptr).status() == SONDE_EINVAL);
  std::printf("%d faults, C++ %ld\n", faults, __cplusplus);
  return faults != 0;
}
