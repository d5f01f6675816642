/* SPDX-License-Identifier: MIT
 *
 * Limits for a part of a test, in C++17 and later: memory that is not freed, allocations, stalls,
 * and new sensitive calls. sonde/gtest.hpp and sonde/catch2.hpp report what exceeds them.
 *
 * One watch at a time exists in a program. It counts the allocations of all threads, and watches
 * stalls of the thread that made it. Its functions may throw std::bad_alloc.
 */
#ifndef SONDE_TEST_HPP
#define SONDE_TEST_HPP

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "sonde/sonde.hpp"

namespace sonde::test {

/* What is allowed; each limit that is not set is not watched. */
struct limits {
  std::int64_t leaked_bytes = -1; /* allocated in the part and not freed at its end; -1: any */
  std::int64_t allocations =
      -1; /* calls of malloc, calloc, realloc, aligned_alloc, and what calls them; -1: any */
  std::uint32_t stall_ms =
      0; /* time until the part ends or calls sonde_heartbeat; at least 10, 0: any */
  const char *known_calls =
      nullptr; /* a baseline of 'sonde audit baseline': no other sensitive call; NULL: any */

  limits &leaked(std::int64_t bytes) { return leaked_bytes = bytes, *this; }
  limits &budget(std::int64_t calls) { return allocations = calls, *this; }
  limits &stall(std::uint32_t ms) { return stall_ms = ms, *this; }
  limits &calls(const char *baseline) { return known_calls = baseline, *this; }
};

namespace detail {

inline std::string demangled(std::string_view symbol) {
  std::string name(symbol);
  int status = 0;
  std::unique_ptr<char, void (*)(void *)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text ? text.get() : name;
}

/* A line for each frame, up to main. */
inline std::string lines(pc_view pcs) {
  std::string out;
  int count = 0;
  for (std::uintptr_t pc : pcs) {
    sonde_name_t name = {};
    int status = sonde_name(pc, 0, &name);
    if (count == 0 && (name.image_flags & SONDE_IMAGE_SYSTEM)) continue; /* malloc, operator new */
    if (++count > 12) break;
    out += "\n    ";
    out += status == 0 ? demangled(name.symbol) : std::string(name.image ? name.image : "?");
    if (status == 0 && std::string_view(name.symbol) == "main") break;
  }
  return out;
}

/* ---- the allocation budget ---- */

struct budget_state {
  std::atomic<std::int64_t> calls{0}, limit{-1};
  std::uintptr_t pcs[64];
  std::atomic<int> count{0}; /* the stack of the first call over the limit */
};
inline budget_state budget;
inline void *(*real_malloc)(std::size_t);
inline void *(*real_calloc)(std::size_t, std::size_t);
inline void *(*real_realloc)(void *, std::size_t);
inline void *(*real_aligned_alloc)(std::size_t, std::size_t);

inline void count_call() noexcept {
  std::int64_t limit = budget.limit.load(std::memory_order_relaxed);
  if (budget.calls.fetch_add(1, std::memory_order_relaxed) != limit) return;
  int count = sonde_stack(budget.pcs, 64);
  budget.count.store(count > 0 ? count : 0, std::memory_order_release);
}
inline void *counted_malloc(std::size_t size) { return count_call(), real_malloc(size); }
inline void *counted_calloc(std::size_t n, std::size_t size) {
  return count_call(), real_calloc(n, size);
}
inline void *counted_realloc(void *old, std::size_t size) {
  return count_call(), real_realloc(old, size);
}
inline void *counted_aligned_alloc(std::size_t alignment, std::size_t size) {
  return count_call(), real_aligned_alloc(alignment, size);
}

class counting {
public:
  explicit counting(std::int64_t limit) {
    struct entry {
      const char *symbol;
      void *replacement;
      void **original;
    } const entries[count] = {
        {"malloc", reinterpret_cast<void *>(counted_malloc),
         reinterpret_cast<void **>(&real_malloc)},
        {"calloc", reinterpret_cast<void *>(counted_calloc),
         reinterpret_cast<void **>(&real_calloc)},
        {"realloc", reinterpret_cast<void *>(counted_realloc),
         reinterpret_cast<void **>(&real_realloc)},
        {"aligned_alloc", reinterpret_cast<void *>(counted_aligned_alloc),
         reinterpret_cast<void **>(&real_aligned_alloc)},
    };
    sonde_hook_request_t requests[count] = {};
    for (int i = 0; i < count; i++) {
      requests[i].symbol = entries[i].symbol;
      requests[i].replacement = entries[i].replacement;
      requests[i].original = entries[i].original;
    }
    status = sonde_hook_add(requests, count, hooks);
    budget.count = 0;
    budget.limit = limit;
    budget.calls = 0;
  }
  ~counting() {
    for (auto *hook : hooks)
      if (status == 0) (void)sonde_hook_remove(hook);
  }
  counting(const counting &) = delete;
  counting &operator=(const counting &) = delete;
  int status;

private:
  static constexpr int count = 4;
  sonde_hook_t *hooks[count] = {};
};

inline std::uint64_t now_ns() noexcept {
  timespec t = {};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1000000000u + static_cast<std::uint64_t>(t.tv_nsec);
}

/* The output of a shell command, and its exit status. */
inline std::string output_of(const std::string &command, int &status) {
  std::string out;
  char part[4096];
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return status = -1, "cannot run " + command;
  while (std::size_t n = std::fread(part, 1, sizeof part, pipe))
    out.append(part, n);
  int ended = pclose(pipe);
  status = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
  return out;
}

inline std::string command() {
  const char *sonde = std::getenv("SONDE");
  return sonde ? std::string("'") + sonde + "'" : "sonde";
}

} // namespace detail

/* Watches from its constructor until finish(), which returns what exceeded the limits, or "". */
class watch {
public:
  explicit watch(const limits &allowed) : limits_(allowed) {
    static std::atomic<int> made{0};
    const char *folder = std::getenv("TMPDIR");
    base_ = std::string(folder ? folder : "/tmp") + "/sonde-test-" + std::to_string(getpid()) +
            "-" + std::to_string(made++);
    if (limits_.leaked_bytes >= 0) {
      log_.reset(new malloc_log((base_ + ".sonde").c_str(), SONDE_MALLOC_LIVE));
      failed("leaks", log_->status());
    }
    if (limits_.known_calls) start_audit();
    if (limits_.allocations >= 0) {
      counting_.reset(new detail::counting(limits_.allocations));
      failed("allocations", counting_->status);
    }
    if (limits_.stall_ms) start_stalls();
    began_ns_ = detail::now_ns();
    if (counting_) detail::budget.calls = 0;
  }
  ~watch() { (void)finish(); }
  watch(const watch &) = delete;
  watch &operator=(const watch &) = delete;

  std::string finish() {
    if (finished_) return "";
    finished_ = true;
    std::int64_t calls = detail::budget.calls;
    std::uint64_t ended_ns = detail::now_ns();
    if (stalls_) (void)sonde_stall_end();
    counting_.reset();
    stalls_.reset();
    if (limits_.allocations >= 0 && calls > limits_.allocations)
      add(std::to_string(calls) + " allocations, the budget is " +
          std::to_string(limits_.allocations) + "; the first one over it:" +
          detail::lines(
              {detail::budget.pcs, static_cast<std::size_t>(detail::budget.count.load())}));
    if (!stall_.empty()) add(stall_);
    if (log_ && log_->status() == 0) find_leaks(ended_ns);
    if (audit_) audit_.reset();
    if (log_) (void)log_->stop();
    if (limits_.known_calls && failures_.find("calls:") == std::string::npos) compare_calls();
    (void)std::remove((base_ + ".sonde").c_str());
    return failures_;
  }

private:
  void add(const std::string &text) { failures_ += (failures_.empty() ? "" : "\n") + text; }
  void failed(const char *what, int status) {
    if (status != 0) add(std::string("cannot watch ") + what + ": " + sonde_strerror(status));
  }

  void start_audit() {
    int status = 0;
    std::string policy = base_ + ".aud",
                said = detail::output_of(
                    detail::command() + " audit compile linux -o '" + policy + "'", status);
    FILE *file = status == 0 ? std::fopen(policy.c_str(), "rb") : nullptr;
    if (!file) return add("cannot watch calls: " + said);
    policy_.reset(new std::uint64_t[policy_words]);
    std::size_t size = std::fread(policy_.get(), 1, policy_words * 8, file);
    std::fclose(file);
    (void)std::remove(policy.c_str());
    audit_.reset(new audit_log(policy_.get(), size, (base_ + ".sonde").c_str()));
    if (audit_->status() != 0)
      add(std::string("cannot watch calls: ") + sonde_strerror(audit_->status()));
  }

  void start_stalls() {
    stalls_.reset(new stall_watch(limits_.stall_ms, on_stall, this));
    int status = stalls_->status();
    for (int i = 0; status == 0 && i < 1000; i++) { /* until the monitor has begun */
      if (sonde_stall_begin(limits_.stall_ms) == 0) return;
      usleep(1000);
    }
    failed("stalls", status ? status : SONDE_ETIMEDOUT);
  }

  static void on_stall(const sonde_stall_t *stall, void *self) {
    auto *watch = static_cast<class watch *>(self);
    if (stall->hot_path_count <= 0 && !watch->stall_.empty()) return;
    watch->stall_ =
        "a stall of " + std::to_string(stall->length_ns / 1000000) + " ms, allowed are " +
        std::to_string(watch->limits_.stall_ms) + " ms:" +
        detail::lines(
            {stall->hot_path,
             static_cast<std::size_t>(stall->hot_path_count > 0 ? stall->hot_path_count : 0)});
  }

  void find_leaks(std::uint64_t ended_ns) {
    struct sum {
      std::int64_t bytes, blocks;
    };
    std::map<std::uint32_t, sum> stacks;
    std::int64_t bytes = 0;
    each_block([&](const sonde_block_t &block) {
      if (block.time_ns < began_ns_ || block.time_ns > ended_ns) return false;
      sum &each = stacks[block.stack];
      each.bytes += static_cast<std::int64_t>(block.size);
      each.blocks++;
      bytes += static_cast<std::int64_t>(block.size);
      return false;
    });
    if (bytes <= limits_.leaked_bytes) return;
    add(std::to_string(bytes) + " bytes are not freed, allowed are " +
        std::to_string(limits_.leaked_bytes) + ":");
    int shown = 0;
    while (!stacks.empty() && shown++ < 3) {
      auto most = stacks.begin();
      for (auto i = stacks.begin(); i != stacks.end(); ++i)
        if (i->second.bytes > most->second.bytes) most = i;
      sonde_block_t block = {};
      block.stack = most->first;
      std::uintptr_t pcs[64];
      add("  " + std::to_string(most->second.bytes) + " bytes in " +
          std::to_string(most->second.blocks) +
          " blocks:" + detail::lines(stack_of_block(block, pcs)));
      stacks.erase(most);
    }
  }

  void compare_calls() {
    int status = 0;
    std::string said = detail::output_of(
        detail::command() + " diff '" + limits_.known_calls + "' '" + base_ + ".sonde'", status);
    if (status == 1)
      add("sensitive calls that are not in " + std::string(limits_.known_calls) + ":\n" + said);
    else if (status != 0)
      add("cannot watch calls: " + said);
  }

  static constexpr std::size_t policy_words = 1 << 16;
  limits limits_;
  std::string base_, failures_, stall_;
  bool finished_ = false;
  std::uint64_t began_ns_ = 0;
  std::unique_ptr<std::uint64_t[]> policy_;
  std::unique_ptr<malloc_log> log_;
  std::unique_ptr<audit_log> audit_;
  std::unique_ptr<detail::counting> counting_;
  std::unique_ptr<stall_watch> stalls_;
};

} // namespace sonde::test

#endif
