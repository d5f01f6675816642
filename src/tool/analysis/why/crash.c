/* SPDX-License-Identifier: MIT
 *
 * Rules: a signal that ended the program, and what it proves about the cause.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "analysis/why/rules.h"

/* SI_KERNEL: a general protection fault, which has no address. */
enum { NULL_PAGE = 4096, CODE_KERNEL = 0x80 };

static const char *signal_name(int number) {
  switch (number) {
  case SIGSEGV: return "SIGSEGV";
  case SIGBUS: return "SIGBUS";
  case SIGABRT: return "SIGABRT";
  case SIGFPE: return "SIGFPE";
  case SIGILL: return "SIGILL";
  case SIGTRAP: return "SIGTRAP";
  case SIGSYS: return "SIGSYS";
  case SIGKILL: return "SIGKILL";
  default: return NULL;
  }
}

/* A function of the C or C++ library on the stack of an abort, and what its presence proves. */
static const struct abort_cause {
  const char *functions[4];
  const char *text, *advice;
} abort_causes[] = {
    {{"assert_fail", "assert_perror_fail", NULL}, "an assertion failed", "check the condition"},
    {{"stack_chk_fail", "stack_chk_fail_local", NULL},
     "a write beyond a local array destroyed the stack's canary",
     "build with -fsanitize=address"},
    {{"chk_fail", "fortify_fail", NULL},
     "a call would have written beyond its buffer",
     "check the size that is passed"},
    {{"malloc_printerr", NULL},
     "the allocator found a double free or a block that was written beyond its end",
     "record with --malloc, or build with -fsanitize=address"},
    {{"cxa_throw", "terminate", "terminatev", NULL},
     "a C++ exception was not caught",
     "catch it, or let main report it"},
    {{"cxa_pure_virtual", NULL},
     "a pure virtual function was called",
     "do not call virtual functions in constructors and destructors"},
};

static const struct abort_cause *abort_cause_of(const why_stack_t *s) {
  for (size_t i = 0; i < sizeof abort_causes / sizeof *abort_causes; i++)
    if (why_calls_any(s, abort_causes[i].functions)) return &abort_causes[i];
  return NULL;
}

/* A function that occurs over and over fills the stack. */
static bool is_endless(const why_stack_t *s) {
  int repeated = 0;
  for (int i = 1; i < s->count; i++)
    repeated += why_same_function(s->functions[i], s->functions[0]) ||
                (i > 1 && why_same_function(s->functions[i], s->functions[1]));
  return s->count == WHY_DEPTH_MAX && repeated * 3 >= s->count;
}

/* The fault is near the stack pointer: below it by up to a frame and a red zone, or above it. */
static bool is_stack_fault(const why_crash_t *c) {
  enum { NEAR = 1 << 16 };
  return c->has_address && c->stack_pointer && c->address + NEAR > c->stack_pointer &&
         c->address < c->stack_pointer + NEAR;
}

static void describe(why_t *w, finding_t *f) {
  const why_crash_t *c = &w->crash;
  const why_stack_t *s = why_stack(w, c->stack);
  const char *name = signal_name(c->signal);
  char place[WHY_PLACE_MAX], cause[200] = "";
  why_place_text(s, place);
  const struct abort_cause *found = c->signal == SIGABRT ? abort_cause_of(s) : NULL;
  bool fault = (c->signal == SIGSEGV || c->signal == SIGBUS) && c->has_address;
  if (found) {
    WHY_SAY(cause, "%s", found->text);
    WHY_SAY(f->advice, "%s", found->advice);
  } else if (fault && is_endless(s) && (is_stack_fault(c) || !c->stack_pointer)) {
    WHY_SAY(cause, "the stack overflowed: the call never stops calling itself");
    WHY_SAY(f->advice, "end the recursion, or make it a loop");
  } else if (fault && c->address < NULL_PAGE) {
    WHY_SAY(cause, c->address ? "it used offset %llu of a null pointer" : "it used a null pointer",
            (unsigned long long)c->address);
    WHY_SAY(f->advice, "check the pointer before its use");
  } else if (c->signal == SIGSEGV && c->code == CODE_KERNEL) {
    WHY_SAY(cause, "it used a pointer that is no address, as of freed or overwritten memory");
    WHY_SAY(f->advice, "%s", w->replay ? "build with -fsanitize=address" : "record with --malloc");
  } else if (c->signal == SIGBUS && c->code == BUS_ADRERR) {
    WHY_SAY(cause, "it used a part of a mapped file that the file no longer has");
    WHY_SAY(f->advice, "check the file's size, and truncate no file that is mapped");
  } else if (c->signal == SIGFPE) {
    WHY_SAY(cause, "an integer division by zero or an overflow");
    WHY_SAY(f->advice, "check the divisor");
  } else if (c->signal == SIGABRT) {
    WHY_SAY(cause, "it called abort");
  } else if (fault) {
    WHY_SAY(cause, "it used address 0x%llx, which is not accessible",
            (unsigned long long)c->address);
    if (!w->replay) WHY_SAY(f->advice, "record with --malloc to see which block was there");
  }
  size_t used = (size_t)snprintf(f->what, sizeof f->what, "The program crashed with %s in %s%s%s",
                                 name ? name : "a signal", place, *cause ? ": " : "", cause);
  if (c->reused && used < sizeof f->what) {
    char now[WHY_NAME_MAX], then[WHY_NAME_MAX], freed[WHY_NAME_MAX];
    snprintf(f->what + used, sizeof f->what - used,
             "; %s points to a block of %s, where %s had one that %s freed", c->reused,
             why_function_text(why_owner(why_stack(w, c->live_stack)), now),
             why_function_text(why_owner(why_stack(w, c->allocated_stack)), then),
             why_function_text(why_owner(why_stack(w, c->freed_stack)), freed));
    WHY_SAY(f->advice, "do not keep a pointer to what is freed");
  }
}

/* What to do about each kind of report/crash.h. */
static const char *advice_of(const char *kind) {
  static const char *const texts[][2] = {
      {"null_pointer", "check the pointer before its use"},
      {"stack_overflow", "end the recursion, or make it a loop"},
      {"use_after_free", "do not keep a pointer to what is freed"},
      {"overflow", "check the size of what is written there"},
      {"double_free", "free the block once, and clear the pointer then"},
      {"invalid_free", "free only what the allocator returned"},
      {"heap_corruption", "look for a write beyond a block: build with -fsanitize=address"},
      {"assertion", "check the condition"},
      {"uncaught_exception", "catch it, or let main report it"},
      {"stack_smashing", "check the size of what is written to the local array"},
      {"unloaded_library", "end its threads and callbacks before dlclose"},
      {"unmapped_memory", "do not use the memory after munmap"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!strcmp(texts[i][0], kind)) return texts[i][1];
  return "";
}

/* A recording knows more than a core file: what the pointers point to. */
static void describe_recorded(why_t *w, finding_t *f) {
  const why_crash_t *c = &w->crash;
  char place[WHY_PLACE_MAX];
  why_place_text(why_stack(w, c->stack), place);
  WHY_SAY(f->what, "The program crashed in %s: %.200s%s%.330s", place, c->cause,
          c->pointer && *c->pointer ? "; " : "", c->pointer ? c->pointer : "");
  WHY_SAY(f->advice, "%s", advice_of(c->kind));
}

static void find_crash(why_t *w, findings_list_t *out) {
  const why_crash_t *c = &w->crash;
  const why_stack_t *s = why_stack(w, c->stack);
  char a[WHY_AMOUNT_MAX], thread[64];
  finding_t f = {.kind = WHY_CRASH,
                 .score = 100,
                 .culprit = why_owner(s),
                 .tid = c->tid,
                 .since_ns = c->time_ns,
                 .section = "crash"};
  if (!strcmp(w->crash.kind ? w->crash.kind : "other", "other"))
    describe(w, &f);
  else
    describe_recorded(w, &f);
  if (w->is_core)
    WHY_SAY(f.evidence, "%s of the core", why_thread_text(w, c->tid, thread, sizeof thread));
  else
    WHY_SAY(f.evidence, "%s, %s after the start", why_thread_text(w, c->tid, thread, sizeof thread),
            why_seconds((double)c->time_ns, a));
  findings_list_add(out, &f);
}

/* The program ended by a signal that left no crash record. */
static void find_end(why_t *w, findings_list_t *out) {
  const char *name = signal_name(w->exit_signal);
  if (!name) return;
  finding_t f = {.kind = w->exit_signal == SIGKILL ? WHY_KILLED : WHY_CRASH, .score = 90};
  if (w->exit_signal == SIGKILL) {
    f.is_note = true;
    WHY_SAY(f.what, "The program was killed by SIGKILL, from outside");
  } else {
    WHY_SAY(f.what, "The program was ended by %s, and no stack of it could be recorded", name);
    WHY_SAY(f.advice, "let it dump core and run 'sonde why CORE'");
  }
  WHY_SAY(f.evidence, "its exit status");
  findings_list_add(out, &f);
}

void why_crash_rules(why_t *w, findings_list_t *out) {
  if (w->crash.signal)
    find_crash(w, out);
  else if (w->exit_signal)
    find_end(w, out);
}
