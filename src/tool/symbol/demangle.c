/* SPDX-License-Identifier: MIT
 *
 * Demangling, by libraries: C++ and Rust (legacy and v0) through libiberty, which is what gdb, perf
 * and addr2line print; Swift through its own library where a Swift toolchain is installed.
 *
 * libiberty rather than __cxa_demangle, which is the same code in libstdc++, because only
 * libiberty's callback form can be stopped. Substitutions of a mangled name refer to earlier text,
 * so 200 hostile bytes can expand without end. __cxa_demangle allocates until it fails; here a
 * longjmp ends the expansion at the limit. libiberty is under the LGPL and linked only into the
 * command, never into libsonde. Without libiberty (macOS), __cxa_demangle demangles shorter names,
 * and Rust v0 names stay raw.
 */
#include "symbol/demangle.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#ifdef SONDE_HAVE_LIBIBERTY

/* From libiberty's demangle.h, whose path differs between systems and which defines old macros. */
extern int cplus_demangle_v3_callback(const char *mangled, int options,
                                      void (*callback)(const char *, size_t, void *), void *opaque);
extern int rust_demangle_callback(const char *mangled, int options,
                                  void (*callback)(const char *, size_t, void *), void *opaque);
#define DMGL_PARAMS (1 << 0)
#define DMGL_ANSI   (1 << 1)
/* C++: std::basic_string<…> for std::string, as in gdb. Rust: hashes. */
#define DMGL_VERBOSE (1 << 3)

typedef struct output {
  char *text;
  size_t used, size;
  jmp_buf full;
} output_t;

static void append(const char *text, size_t length, void *opaque) {
  output_t *output = opaque;
  if (length >= output->size - output->used) longjmp(output->full, 1);
  if (length)
    memcpy(output->text + output->used, text, length); /* Rust's demangler may pass NULL, 0 */
  output->used += length;
}

typedef int demangler_fn(const char *, int, void (*)(const char *, size_t, void *), void *);

static bool run(demangler_fn *demangler, int options, const char *raw, char *out, size_t size) {
  output_t output = {.text = out, .size = size};
  if (setjmp(output.full)) return false;
  if (!demangler(raw, options, append, &output) || !output.used) return false;
  out[output.used] = 0;
  return true;
}

/* A Rust v0 name contains, in base 62 after FG or DG, how many lifetimes a function type binds.
 * libiberty counts up to this number without output, so ten characters would take years. Real
 * programs stay below three digits. */
static bool binds_too_many(const char *raw) {
  enum { DIGITS_MAX = 3 };
  for (const char *at = raw; (at = strchr(at, 'G')) != NULL; at++) {
    if (at == raw || (at[-1] != 'F' && at[-1] != 'D')) continue;
    size_t digits =
        strspn(at + 1, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (digits > DIGITS_MAX && at[1 + digits] == '_') return true;
  }
  return false;
}

/* Rust first: a legacy Rust name is also a valid C++ name. */
static bool demangle_itanium(const char *raw, char *out, size_t size) {
  const int options = DMGL_PARAMS | DMGL_ANSI;
  return (!binds_too_many(raw) && run(rust_demangle_callback, options, raw, out, size)) ||
         (raw[0] == '_' && raw[1] == 'Z' &&
          run(cplus_demangle_v3_callback, options | DMGL_VERBOSE, raw, out, size));
}

#else

extern char *__cxa_demangle(const char *mangled, char *buffer, size_t *length, int *status);
#define CXA_RAW_MAX 1024

static bool demangle_itanium(const char *raw, char *out, size_t size) {
  if (raw[0] != '_' || raw[1] != 'Z' || strlen(raw) > CXA_RAW_MAX) return false;
  int status = -1;
  char *text = __cxa_demangle(raw, NULL, NULL, &status);
  bool fits = text && !status && strlen(text) < size;
  if (fits) strcpy(out, text);
  free(text);
  return fits;
}

#endif

/* swift_demangle_getDemangledName of libswiftDemangle (SwiftDemangle.h) returns the length. The
 * library is loaded at the first Swift name and stays loaded. */
typedef size_t swift_demangle_fn(const char *raw, char *out, size_t size);

static swift_demangle_fn *swift_demangler(void) {
  static bool tried;
  static swift_demangle_fn *found;
  if (!tried) {
    tried = true;
    void *library = dlopen("libswiftDemangle.so", RTLD_NOW | RTLD_LOCAL);
    if (library) *(void **)&found = dlsym(library, "swift_demangle_getDemangledName");
  }
  return found;
}

static bool is_swift(const char *raw) {
  return !strncmp(raw, "$s", 2) || !strncmp(raw, "_$s", 3) || !strncmp(raw, "$S", 2) ||
         !strncmp(raw, "_T0", 3);
}

static bool demangle_swift(const char *raw, char *out, size_t size) {
  swift_demangle_fn *demangler = swift_demangler();
  if (!demangler) return false;
  size_t length = demangler(raw, out, size);
  return length > 0 && length < size;
}

/* "_Z3fooi@plt", as elf/plt.c names the stub of a function of another image. */
static bool demangle_stub(const char *raw, char *out, size_t size) {
  static const char ending[] = "@plt";
  char function[1024];
  size_t length = strlen(raw), end = sizeof ending - 1;
  if (length <= end || length >= sizeof function || strcmp(raw + length - end, ending))
    return false;
  memcpy(function, raw, length - end);
  function[length - end] = 0;
  if (!demangle_itanium(function, out, size) || strlen(out) + sizeof ending > size) return false;
  strcat(out, ending);
  return true;
}

bool demangle(const char *raw, char *out, size_t size) {
  if (raw[0] != '_' && raw[0] != '$') return false;
  if (strnlen(raw, DEMANGLE_MAX / 4) == DEMANGLE_MAX / 4) return false;
  if (size > DEMANGLE_MAX) size = DEMANGLE_MAX;
  if (is_swift(raw)) return demangle_swift(raw, out, size);
  if (raw[1] != 'Z' && raw[1] != 'R') return false;
  return demangle_stub(raw, out, size) || demangle_itanium(raw, out, size);
}
