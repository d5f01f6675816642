/* SPDX-License-Identifier: MIT
 *
 * sonde for C++17 and later: scopes that begin and end what the C functions begin and end, and
 * views of stacks. The C headers, which this one includes, document the functions, their costs and
 * who may call them.
 *
 * Nothing here throws, allocates or needs run-time type information. What can fail has a status()
 * with a SONDE_E… code, and does nothing at its end if it failed. A callable that is passed to a
 * function must not throw: if it does, std::terminate is called, because the frames between are C.
 * Scopes can be moved neither to another thread nor to another variable.
 *
 * sonde::stall_scope is in sonde/stall.h.
 */
#ifndef SONDE_SONDE_HPP
#define SONDE_SONDE_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#if __cplusplus >= 202002L && __has_include(<span>)
#include <span>
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored                                                                     \
    "-Wshadow" /* sonde_capture is a structure and a function, as stat is */
#include "sonde/sonde.h"
#pragma GCC diagnostic pop

namespace sonde {

/* ---- views
 * --------------------------------------------------------------------------------------- */

#if defined(__cpp_lib_span)
using pc_view = std::span<const std::uintptr_t>;
#else
/* The part of std::span that a stack needs, for C++17. */
class pc_view {
public:
  constexpr pc_view() noexcept = default;
  constexpr pc_view(const std::uintptr_t *data, std::size_t size) noexcept
      : data_(data), size_(size) {}
  constexpr const std::uintptr_t *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr const std::uintptr_t *begin() const noexcept { return data_; }
  constexpr const std::uintptr_t *end() const noexcept { return data_ + size_; }
  constexpr const std::uintptr_t &operator[](std::size_t i) const noexcept { return data_[i]; }
  constexpr const std::uintptr_t &front() const noexcept { return data_[0]; }
  constexpr pc_view first(std::size_t count) const noexcept { return {data_, count}; }

private:
  const std::uintptr_t *data_ = nullptr;
  std::size_t size_ = 0;
};
#endif

/* As sonde_stack_print: one line per frame to the descriptor FD. Returns the lines or a SONDE_E….
 */
inline int print(pc_view pcs, int fd = 2, unsigned flags = 0) noexcept {
  return sonde_stack_print(fd, pcs.data(), static_cast<int>(pcs.size()), flags);
}

/* ---- stacks
 * -------------------------------------------------------------------------------------- */

/* Storage for a stack of at most MAX frames, in place. A captured stack has the status of
 * sonde_capture. */
template <int Max = 128> class stack {
  static_assert(Max > 0, "a stack has room for one frame at least");

public:
  /* The calling thread's stack. Entry 0 is in the function that calls here. */
  [[gnu::always_inline]] static inline stack here() noexcept {
    stack result;
    result.count_ = sonde_stack(result.pcs_, Max);
    return result;
  }

  /* The stack of thread TID of this process, as sonde_stack_of_thread. Entry 0 of another thread is
   * exact. */
  static stack of_thread(pid_t tid) noexcept {
    stack result;
    result.count_ = sonde_stack_of_thread(tid, result.pcs_, Max);
    return result;
  }

  /* The stack of an interrupted context: UCONTEXT is the third argument of a signal handler. */
  static stack of_context(const void *ucontext) noexcept {
    stack result;
    sonde_capture_t capture = {};
    capture.pcs = result.pcs_;
    capture.max = Max;
    capture.ucontext = ucontext;
    result.count_ = sonde_capture(&capture);
    return result;
  }

  /* 0, or the SONDE_E… for which there are no frames. */
  int status() const noexcept { return count_ < 0 ? count_ : 0; }
  pc_view pcs() const noexcept { return {pcs_, static_cast<std::size_t>(count_ < 0 ? 0 : count_)}; }

private:
  stack() noexcept : count_(0) {}
  int count_;
  std::uintptr_t pcs_[Max];
};

/* The id of a stack: equal ids mean equal stacks. Four bytes, to be copied and stored. */
class stack_id {
public:
  /* The id of the calling thread's stack; id() is 0 if it has none, and status() says why. */
  [[gnu::always_inline]] static inline stack_id here() noexcept {
    stack_id result;
    if (sonde_stack_id(&result.id_) < 0) result.id_ = 0;
    return result;
  }
  constexpr stack_id() noexcept = default;
  constexpr explicit stack_id(std::uint32_t id) noexcept : id_(id) {}
  constexpr std::uint32_t id() const noexcept { return id_; }
  constexpr explicit operator bool() const noexcept { return id_ != 0; }

  /* Its frames, in BUFFER; none if the id is unknown. */
  template <std::size_t Size> pc_view pcs(std::uintptr_t (&buffer)[Size]) const noexcept {
    int count = sonde_stack_of_id(id_, buffer, static_cast<int>(Size));
    return {buffer, static_cast<std::size_t>(count < 0 ? 0 : count)};
  }
  friend constexpr bool operator==(stack_id a, stack_id b) noexcept { return a.id_ == b.id_; }
  friend constexpr bool operator!=(stack_id a, stack_id b) noexcept { return a.id_ != b.id_; }

private:
  std::uint32_t id_ = 0;
};

/* The name of the function at PC, a return address unless FLAGS has SONDE_NAME_EXACT; empty if it
 * is unknown. The text remains valid for the life of the process. */
inline std::string_view function_at(std::uintptr_t pc, unsigned flags = 0) noexcept {
  sonde_name_t name = {};
  if (sonde_name(pc, flags, &name) < 0 || !name.symbol) return {};
  return name.symbol;
}

/* ---- recording
 * ----------------------------------------------------------------------------------- */

/* Begins in the constructor and ends in the destructor, if it began. */
class scope {
public:
  scope(const scope &) = delete;
  scope &operator=(const scope &) = delete;
  /* What the function that begins returned. */
  int status() const noexcept { return status_; }

protected:
  explicit scope(int status) noexcept : status_(status) {}
  ~scope() = default;
  int status_;
};

/* Records the program's allocations into the new file PATH while it exists: sonde_malloc_log_start
 * and _stop. */
class malloc_log : public scope {
public:
  explicit malloc_log(const char *path, sonde_malloc_mode_t mode = SONDE_MALLOC_BLOCKS) noexcept
      : scope(sonde_malloc_log_start(path, mode)) {}
  ~malloc_log() { (void)stop(); }

  /* Stops now and returns the status of sonde_malloc_log_stop, which the destructor cannot return.
   */
  int stop() noexcept {
    if (status_ != 0) return status_;
    status_ = SONDE_ENOTFOUND;
    return sonde_malloc_log_stop();
  }
};

/* Audits sensitive calls while it exists: sonde_audit_start and _stop. */
class audit_log : public scope {
public:
  audit_log(const void *policy, std::size_t size, const char *path) noexcept
      : scope(sonde_audit_start(policy, size, path)) {}
  ~audit_log() {
    if (status_ == 0) (void)sonde_audit_stop();
  }
};

/* Traces calls of all threads while it exists: sonde_trace_start and _stop. */
class tracing : public scope {
public:
  explicit tracing(std::size_t limit_bytes = 0) noexcept : scope(sonde_trace_start(limit_bytes)) {}
  ~tracing() {
    if (status_ == 0) (void)sonde_trace_stop();
  }
};

/* Traces a block like a call of a function NAME, a string literal: { sonde::trace_scope
 * part("parse"); … } */
class trace_scope {
public:
  explicit trace_scope(const char *name) noexcept : name_(name) { sonde_trace_begin(name); }
  ~trace_scope() { sonde_trace_end(name_); }
  trace_scope(const trace_scope &) = delete;
  trace_scope &operator=(const trace_scope &) = delete;

private:
  const char *name_;
};

/* Calls VISIT(const sonde_block_t &) with each live block, until VISIT returns true. As
 * sonde_malloc_each. */
template <typename Visit> std::int64_t each_block(Visit &&visit) noexcept {
  return sonde_malloc_each(
      [](const sonde_block_t *block, void *context) noexcept -> int {
        return (*static_cast<std::remove_reference_t<Visit> *>(context))(*block) ? 1 : 0;
      },
      const_cast<void *>(static_cast<const volatile void *>(&visit)));
}

/* The frames of a block's stack, in BUFFER; none if the block has no stack. */
template <std::size_t Size>
pc_view stack_of_block(const sonde_block_t &block, std::uintptr_t (&buffer)[Size]) noexcept {
  int count = sonde_malloc_stack(block.stack, buffer, static_cast<int>(Size));
  return {buffer, static_cast<std::size_t>(count < 0 ? 0 : count)};
}

/* ---- stalls
 * -------------------------------------------------------------------------------------- */

/* Watches the declared iterations of this program (sonde/stall.h) in a thread of its own while it
 * exists, and calls CALL in that thread. The destructor waits for that thread. */
class stall_watch : public scope {
public:
  stall_watch(std::uint32_t threshold_ms, sonde_stall_call_t *call, void *context) noexcept
      : scope(threshold_ms < 10 || !call ? SONDE_EINVAL : 0), threshold_ms_(threshold_ms),
        call_(call), context_(context) {
    if (status_ == 0 && pthread_create(&thread_, nullptr, run, this) != 0) status_ = SONDE_ENOMEM;
  }
  ~stall_watch() {
    if (status_ != 0) return;
    (void)sonde_stall_monitor_stop();
    (void)pthread_join(thread_, nullptr);
  }

private:
  static void *run(void *self) noexcept {
    auto *watch = static_cast<stall_watch *>(self);
    (void)sonde_stall_monitor(watch->threshold_ms_, watch->call_, watch->context_);
    return nullptr;
  }
  std::uint32_t threshold_ms_;
  sonde_stall_call_t *call_;
  void *context_;
  pthread_t thread_ = {};
};

/* ---- hooks
 * --------------------------------------------------------------------------------------- */

/* Calls of the C function SYMBOL reach REPLACEMENT while it exists: sonde_hook_add and _remove. The
 * hook must exist as long as a call of REPLACEMENT may be in progress: static sonde::hook<int(const
 * char *)> hooked("puts", my_puts);     my_puts calls hooked.original("…") */
template <typename Function> class hook : public scope {
public:
  hook(const char *symbol, Function *replacement) noexcept : scope(SONDE_EINVAL) {
    sonde_hook_request_t request = {};
    request.symbol = symbol;
    request.replacement = reinterpret_cast<void *>(replacement);
    request.original = &original_;
    status_ = sonde_hook_add(&request, 1, &handle_);
  }
  ~hook() {
    if (status_ == 0) (void)sonde_hook_remove(handle_);
  }
  /* Calls the function, or the next older hook of it. */
  template <typename... Arguments> decltype(auto) original(Arguments... arguments) const {
    return reinterpret_cast<Function *>(original_)(arguments...);
  }

private:
  sonde_hook_t *handle_ = nullptr;
  void *original_ = nullptr;
};

} // namespace sonde

#endif
