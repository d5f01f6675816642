/* SPDX-License-Identifier: MIT */
#include "sensor/linux/crash_cause.h"

#include <signal.h>

#include "base/text.h"
#include "os/os.h"

/* struct __cxa_exception (Itanium C++ ABI 2.2.1; unwind-cxx.h of libstdc++), on machines with
 * pointers of 8 bytes: the type is its first field, the class is in its last one, the object
 * follows. */
#define HEADER_BYTES  112u
#define CLASS_OFFSET  80u
#define CLASS_GNU     UINT64_C(0x474e5543432b2b00) /* "GNUCC++\0" */
#define CLASS_ANOTHER UINT64_C(0x474e5543432b2b01) /* refers to another exception's object */
#define BASES_MAX     8

static uint64_t abort_message; /* the address of glibc's variable; 0: there is none */
static void *(*exceptions)(void);

void crash_cause_prepare(void) {
  static const char *const names[] = {"__abort_msg", "__cxa_get_globals_fast"};
  uint64_t found[ARRAY_COUNT(names)] = {0};
  os_symbols((uint64_t)(uintptr_t)&crash_cause_prepare, names, found, ARRAY_COUNT(names));
  abort_message = found[0];
  exceptions = (void *(*)(void))(uintptr_t)found[1];
}

static uint64_t word_at(uint64_t address) {
  uint64_t value = 0;
  if (os_read_memory(address, &value, sizeof value) != sizeof value) return 0;
  return value;
}

/* The bytes before a 0, at most SIZE. */
static uint32_t read_text(uint64_t address, char *out, uint32_t size) {
  ssize_t got = address ? os_read_memory(address, out, size) : 0;
  uint32_t length = 0;
  while ((ssize_t)length < got && out[length])
    length++;
  return length;
}

/* struct abort_msg_s: an unsigned size, then the text. */
static void read_message(crash_cause_t *out) {
  uint64_t message = abort_message ? word_at(abort_message) : 0;
  if (!message) return;
  out->message_size = read_text(message + sizeof(uint32_t), out->message, sizeof out->message);
  while (out->message_size && out->message[out->message_size - 1] == '\n')
    out->message_size--;
}

/* std::type_info: a pointer to functions, the name; of a class with one base then its base. Names
 * of types that are not global begin with '*'. */
static uint32_t read_type(uint64_t type, char *out, uint32_t size) {
  uint64_t name = word_at(type + 8);
  char first = 0;
  if (name && os_read_memory(name, &first, 1) == 1 && first == '*') name++;
  return read_text(name, out, size);
}

/* std::runtime_error and std::logic_error hold a pointer to their text behind the first word. */
static bool has_text(uint64_t type) {
  static const char *const names[] = {"St13runtime_error", "St11logic_error"};
  for (int depth = 0; type && depth < BASES_MAX; depth++, type = word_at(type + 16)) {
    char name[32];
    uint32_t size = read_type(type, name, sizeof name - 1);
    name[size] = 0;
    if (text_equal(name, names[0]) || text_equal(name, names[1])) return true;
  }
  return false;
}

static void read_exception(crash_cause_t *out) {
  uint64_t globals = exceptions ? (uint64_t)(uintptr_t)exceptions() : 0;
  uint64_t header = globals ? word_at(globals) : 0;
  if (!header) return;
  uint64_t object = header + HEADER_BYTES, class = word_at(header + CLASS_OFFSET);
  if (class == CLASS_ANOTHER) {
    object = word_at(header);
    header = object - HEADER_BYTES;
  } else if (class != CLASS_GNU)
    return;
  uint64_t type = word_at(header);
  out->exception_size = read_type(type, out->exception, sizeof out->exception);
  if (has_text(type)) out->what_size = read_text(word_at(object + 8), out->what, sizeof out->what);
}

void crash_cause_read(int number, crash_cause_t *out) {
  out->message_size = out->exception_size = out->what_size = 0;
  if (number != SIGABRT) return;
  read_message(out);
  read_exception(out);
}
