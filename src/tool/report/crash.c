/* SPDX-License-Identifier: MIT */
#include "report/crash.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "symbol/demangle.h"

enum { DEPTH_MAX = 512, NAME_BYTES = 200 };

const char *crash_kind_key(crash_kind_t kind) {
  switch (kind) {
#define CRASH_KEY(name, key)                                                                       \
  case name: return key;
    CRASH_KINDS(CRASH_KEY)
#undef CRASH_KEY
  }
  return "";
}

static bool starts_with(const char *text, const char *start) {
  return text && !strncmp(text, start, strlen(start));
}

/* ---- the kind ----------------------------------------------------------------------------- */

/* True if a function of the crashed thread has this name, or one that begins with it. */
static bool stack_has(const report_t *r, const crash_t *c, const char *const *functions) {
  const frame_name_t *names[DEPTH_MAX];
  int count = frame_names_of_stack(r->names, c->crashed.stack, names, DEPTH_MAX);
  for (int i = 0; i < count && i < DEPTH_MAX; i++)
    for (const char *const *f = functions; *f && names[i]->known; f++)
      if (starts_with(names[i]->function, *f)) return true;
  return false;
}

static const char *const terminating[] = {"std::terminate", "__cxxabiv1::__terminate", NULL};
/* Of Rust's standard library. "std::panicking::catch_unwind" is on the stack of every thread. */
static const char *const panicking[] = {"rust_panic",
                                        "__rustc::rust_panic",
                                        "rust_begin_unwind",
                                        "core::panicking::panic",
                                        "std::panicking::begin_panic",
                                        "std::panicking::rust_panic",
                                        NULL};
static const char *const overflowing[] = {
    "std::sys::pal::unix::stack_overflow::", "std::sys::unix::stack_overflow::", NULL};

/* Beginnings of the C library's messages. */
static const struct {
  const char *start;
  crash_kind_t kind;
} messages[] = {{"free(): double free", CRASH_DOUBLE_FREE},
                {"double free or corruption", CRASH_DOUBLE_FREE},
                {"free(): invalid", CRASH_INVALID_FREE},
                {"munmap_chunk(): invalid", CRASH_INVALID_FREE},
                {"realloc(): invalid", CRASH_INVALID_FREE},
                {"free(): ", CRASH_CORRUPTION},
                {"malloc", CRASH_CORRUPTION},
                {"realloc(): ", CRASH_CORRUPTION},
                {"corrupted ", CRASH_CORRUPTION},
                {"invalid ", CRASH_CORRUPTION},
                {"*** stack smashing", CRASH_SMASHED_STACK}};

/* "free(): invalid pointer" of a block that was freed before is a double free; so is "double free
 * or corruption" only if the log says so. If the block is live, its surroundings are damaged. */
static crash_kind_t kind_of_free(crash_kind_t kind, const crash_pointers_t *pointers) {
  const crash_pointer_t *freed = crash_pointer_named(pointers, "freed");
  if (!freed) return kind;
  if (freed->place == CRASH_PLACE_FREED && !freed->offset) return CRASH_DOUBLE_FREE;
  if (freed->damage) return CRASH_CORRUPTION;
  if (kind == CRASH_DOUBLE_FREE && freed->place == CRASH_PLACE_LIVE)
    return freed->offset ? CRASH_INVALID_FREE : CRASH_CORRUPTION;
  return kind;
}

static crash_kind_t kind_of_abort(const report_t *r, const crash_t *c,
                                  const crash_pointers_t *pointers) {
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++)
    if (starts_with(c->message, messages[i].start)) return kind_of_free(messages[i].kind, pointers);
  if (c->message && strstr(c->message, "Assertion ")) return CRASH_ASSERTION;
  if (stack_has(r, c, terminating)) return CRASH_EXCEPTION;
  if (stack_has(r, c, overflowing)) return CRASH_STACK_OVERFLOW;
  return stack_has(r, c, panicking) ? CRASH_PANIC : CRASH_ABORT;
}

static crash_kind_t kind_of_place(crash_place_t place) {
  switch (place) {
  case CRASH_PLACE_NULL: return CRASH_NULL_POINTER;
  case CRASH_PLACE_STACK_GUARD: return CRASH_STACK_OVERFLOW;
  case CRASH_PLACE_FREED: return CRASH_USE_AFTER_FREE;
  case CRASH_PLACE_BEHIND: return CRASH_OVERFLOW;
  case CRASH_PLACE_UNLOADED: return CRASH_UNLOADED_LIBRARY;
  case CRASH_PLACE_UNMAPPED: return CRASH_UNMAPPED_MEMORY;
  default: return CRASH_OTHER;
  }
}

crash_kind_t report_crash_kind(const report_t *r, const crash_t *c,
                               const crash_pointers_t *pointers) {
  const crash_pointer_t *address = crash_pointer_named(pointers, "address");
  if (c->number == SIGABRT) return kind_of_abort(r, c, pointers);
  if (c->code <= 0) return CRASH_SENT;
  if ((c->number != SIGSEGV && c->number != SIGBUS) || !address) return CRASH_OTHER;
  if (crash_pointer_link(pointers)) return CRASH_USE_AFTER_FREE;
  return kind_of_place(address->place);
}

/* ---- texts -------------------------------------------------------------------------------- */

/* Appends to the text OUT of CRASH_TEXT_BYTES. */
__attribute__((format(printf, 2, 3))) static void add(char *out, const char *format, ...) {
  size_t used = strlen(out);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out + used, CRASH_TEXT_BYTES - used, format, arguments);
  va_end(arguments);
}

/* The function that owns a stack. */
static void add_owner(const report_t *r, uint32_t stack, char *out) {
  const frame_name_t *owner = stack ? frame_names_owner(r->names, stack) : NULL;
  char *text = owner ? malloc(REPORT_NAME_MAX) : NULL;
  if (text) add(out, "%.*s", NAME_BYTES, report_name(r, owner, NAME_BYTES, text));
  if (!text) add(out, "an unknown function");
  free(text);
}

static void add_thread(const report_t *r, const crash_t *c, uint32_t stream, char *out) {
  const record_thread_t *t = reader_thread(r->reader, stream);
  if (t && t->tid != c->crashed.tid) add(out, " on thread %" PRIu32, t->tid);
}

static void add_ago(const report_t *r, const crash_t *c, uint64_t time, char *out) {
  char text[32];
  uint64_t then = reader_ns(r->reader, time), now = reader_ns(r->reader, c->time);
  add(out, " %s earlier", report_duration(now > then ? (double)(now - then) : 0, text));
}

/* "a live 48-byte block that conn_new allocated" */
static void add_block(const report_t *r, const crash_block_t *b, const char *live, char *out) {
  add(out, "a %s%" PRIu64 "-byte block that ", live, b->size);
  add_owner(r, b->allocated_stack, out);
  add(out, " allocated");
}

static void add_freed(const report_t *r, const crash_t *c, const crash_block_t *b, char *out) {
  add(out, " and ");
  add_owner(r, b->freed_stack, out);
  add(out, " freed");
  add_ago(r, c, b->freed_time, out);
  add_thread(r, c, b->freed_stream, out);
  if (b->is_sampled) add(out, " (its memory may have been allocated again)");
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* What follows "rdi = 0x55…"; nothing if the place is unknown. */
static void add_place(const report_t *r, const crash_t *c, const crash_pointer_t *p, char *out) {
  const crash_block_t *b = &p->block;
  switch (p->place) {
  case CRASH_PLACE_NULL:
    if (p->offset)
      add(out, " is a null pointer plus %" PRIu64, p->offset);
    else
      add(out, " is a null pointer");
    break;
  case CRASH_PLACE_LIVE:
  case CRASH_PLACE_FREED:
    if (p->offset)
      add(out, " is %" PRIu64 " bytes into ", p->offset);
    else
      add(out, " is ");
    add_block(r, b, p->place == CRASH_PLACE_LIVE ? "live " : "", out);
    if (p->place == CRASH_PLACE_FREED) add_freed(r, c, b, out);
    break;
  case CRASH_PLACE_BEHIND:
    add(out, " is %" PRIu64 " bytes behind the end of ", p->offset);
    add_block(r, b, "live ", out);
    break;
  case CRASH_PLACE_STACK_GUARD:
    add(out, " is %" PRIu64 " bytes below the stack of the thread, which is full (%" PRIu64 " KB)",
        p->offset, (c->stack_high - c->stack_low) >> 10);
    break;
  case CRASH_PLACE_STACK: add(out, " is in the stack of the thread"); break;
  case CRASH_PLACE_IMAGE: add(out, " is in %s", base_name(p->image->path)); break;
  case CRASH_PLACE_UNLOADED:
    add(out, " is in %s, which was unloaded", base_name(p->image->path));
    add_ago(r, c, p->image->unloaded_time, out);
    break;
  case CRASH_PLACE_UNMAPPED:
    add(out, " is in a memory mapping that ");
    add_owner(r, b->freed_stack, out);
    add(out, " removed");
    add_ago(r, c, b->freed_time, out);
    break;
  case CRASH_PLACE_NOT_CANONICAL: add(out, " is no address of user memory"); break;
  default: break;
  }
}

char *report_crash_pointer(const report_t *r, const crash_t *c, const crash_pointer_t *p,
                           char *out) {
  *out = 0;
  if (p->place == CRASH_PLACE_UNKNOWN) return out;
  if (!strcmp(p->name, "freed"))
    add(out, "the freed pointer 0x%" PRIx64, p->value);
  else
    add(out, "%s = 0x%" PRIx64, p->name, p->value);
  add_place(r, c, p, out);
  if (p->damage == CRASH_DAMAGE_BEHIND) add(out, ", and what is behind its end is overwritten");
  if (p->damage == CRASH_DAMAGE_BEFORE) add(out, ", and what is in front of it is overwritten");
  if (!p->below.start) return out;
  add(out, ", at the end of ");
  add_block(r, &p->below, "live ", out);
  return out;
}

static void add_exception(const crash_t *c, char *out) {
  char raw[600], name[600];
  const char *text = name, *prefix = "typeinfo name for ";
  if (!c->exception || !*c->exception) {
    add(out, "std::terminate was called");
    return;
  }
  snprintf(raw, sizeof raw, "_ZTS%s", c->exception);
  if (!demangle(raw, name, sizeof name)) text = c->exception;
  if (starts_with(text, prefix)) text += strlen(prefix);
  add(out, "uncaught exception %s", text);
  if (c->what && *c->what) add(out, ": %s", c->what);
}

char *report_crash_cause(const report_t *r, const crash_t *c, const crash_pointers_t *pointers,
                         char *out) {
  crash_kind_t kind = report_crash_kind(r, c, pointers);
  const crash_pointer_t *address = crash_pointer_named(pointers, "address");
  *out = 0;
  add(out, "%s: ", report_signal_name(c->number));
  if (kind == CRASH_EXCEPTION)
    add_exception(c, out);
  else if (kind == CRASH_PANIC)
    add(out, "panic");
  else if (kind == CRASH_STACK_OVERFLOW)
    add(out, "stack overflow");
  else if (c->message && *c->message)
    add(out, "%s", c->message);
  else
    add(out, "%s", crash_signal_text(c));
  bool is_fault = c->number == SIGSEGV || c->number == SIGBUS;
  if (!c->has_address || !is_fault) return out;
  add(out, " at 0x%" PRIx64, c->address);
  if (address && address->place == CRASH_PLACE_NULL)
    add(out, address->offset ? ", a null pointer plus %" PRIu64 : ", a null pointer",
        address->offset);
  if (crash_pointer_link(pointers)) add(out, ", which is the allocator's link in a freed block");
  return out;
}
