/* SPDX-License-Identifier: MIT
 *
 * A small Objective-C runtime for what clang compiles for macOS: classes and selectors of the
 * images that dyld tells of, methods by a search up the classes, and of objc/runtime.h what
 * libsonde asks. Layouts are those of the compiler's metadata. Objects, classes too, begin with a
 * word that is no plain pointer, and some objects are no memory at all, as Apple's. What is asked
 * of it leaves the registers as badly as any function may.
 */
#include <mach-o/dyld.h>
#include <mach-o/loader.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT        __attribute__((visibility("default"), noinline))
#define CLASSES_MAX   64
#define SELECTORS_MAX 1024

typedef struct info {
  uint32_t flags, instance_start, instance_bytes, reserved;
  const void *layout;
  const char *name;
  void *methods;
  const void *protocols;
  struct variables *variables;
} info_t;

/* Where a variable is, is in a place that is filled in at run time. */
typedef struct variable {
  const uint32_t *offset;
  const char *name, *types;
  uint32_t alignment, bytes;
} variable_t;

typedef struct variables {
  uint32_t entry_bytes, count;
  variable_t entries[];
} variables_t;

typedef struct class {
  struct class *class, *above;
  void *cache[2];
  uint64_t info; /* with flags in the lowest bits */
} class_t;

typedef struct method {
  const char *selector, *types;
  void *code;
} method_t;

/* A method list: entries of three pointers, or of three distances (the selector's to where a
 * reference to it stands). */
typedef struct methods {
  uint32_t entry_bytes, count;
  uint8_t entries[];
} methods_t;
#define IS_RELATIVE 0x80000000u

#define IS_META 1u /* in flags */

/* The packed word: a class, marks around it. */
#define ISA_CLASS UINT64_C(0x00fffffffffffff8)
#define ISA_MARKS UINT64_C(0x4200000000000005)
#if defined(__aarch64__)
#define TAGGED (UINT64_C(1) << 63)
#else
#define TAGGED UINT64_C(1)
#endif

void scribble(void);
char _objc_empty_cache[16] __attribute__((visibility("default")));

static class_t *classes[CLASSES_MAX];
static const char *selectors[SELECTORS_MAX];
static int class_count, selector_count;

static void fail(const char *what, const char *name) {
  (void)write(2, what, strlen(what));
  (void)write(2, name, strlen(name));
  (void)write(2, "\n", 1);
  abort();
}

static info_t *info_of(const class_t *class) { return (info_t *)(class->info & ~UINT64_C(7)); }

EXPORT const char *sel_registerName(const char *name) {
  for (int i = 0; i < selector_count; i++)
    if (strcmp(selectors[i], name) == 0) return selectors[i];
  if (selector_count == SELECTORS_MAX) fail("too many selectors: ", name);
  return selectors[selector_count++] = name;
}

EXPORT const char *sel_getName(const char *selector) {
  scribble();
  return selector;
}

EXPORT class_t *object_getClass(uint64_t object) {
  extern class_t *tagged_class;
  class_t *class = tagged_class;
  if (!(object & TAGGED)) class = (class_t *)(*(uint64_t *)object & ISA_CLASS);
  scribble();
  return class;
}
class_t *tagged_class;

EXPORT const char *class_getName(const class_t *class) {
  scribble();
  return info_of(class)->name;
}
EXPORT class_t *class_getSuperclass(const class_t *class) { return class->above; }
EXPORT bool class_isMetaClass(const class_t *class) { return info_of(class)->flags & IS_META; }

EXPORT class_t *objc_lookUpClass(const char *name) {
  for (int i = 0; i < class_count; i++)
    if (strcmp(info_of(classes[i])->name, name) == 0) return classes[i];
  return NULL;
}

EXPORT uint64_t *class_createInstance(const class_t *class, size_t more) {
  uint64_t *object = calloc(1, info_of(class)->instance_bytes + more);
  object[0] = (uint64_t) class | ISA_MARKS;
  return object;
}

/* ---- methods -------------------------------------------------------------------------------- */

static const uint8_t *at_distance(const int32_t *field) { return (const uint8_t *)field + *field; }

static method_t method_at(const methods_t *methods, uint32_t i) {
  const uint8_t *entry = methods->entries + i * (methods->entry_bytes & 0xfffcu);
  if (!(methods->entry_bytes & IS_RELATIVE)) return *(const method_t *)entry;
  const int32_t *fields = (const int32_t *)entry;
  return (method_t){*(const char *const *)at_distance(fields),
                    (const char *)at_distance(fields + 1), (void *)at_distance(fields + 2)};
}

/* A method that was found is kept, so that there is one pointer for it. */
static method_t *method_of(class_t *class, const char *selector) {
  static method_t found[256];
  static class_t *owner[256];
  static uint32_t count, lock;
  methods_t *methods = info_of(class)->methods;
  for (uint32_t i = 0; methods && i < methods->count; i++) {
    method_t m = method_at(methods, i);
    if (strcmp(m.selector, selector) != 0) continue;
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {
    }
    uint32_t known = 0;
    while (known < count && (owner[known] != class || strcmp(found[known].selector, selector)))
      known++;
    if (known == 256) fail("too many methods: ", selector);
    if (known == count) found[known] = m, owner[known] = class, count++;
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    return &found[known];
  }
  return NULL;
}

EXPORT method_t *class_getInstanceMethod(class_t *class, const char *selector) {
  method_t *found = NULL;
  for (; class && !found; class = class->above)
    found = method_of(class, selector);
  scribble();
  return found;
}

EXPORT void *method_getImplementation(const method_t *method) { return method->code; }

EXPORT void *method_setImplementation(method_t *method, void *code) {
  return __atomic_exchange_n(&method->code, code, __ATOMIC_ACQ_REL);
}

static void *code_of(class_t *class, const char *selector) {
  const method_t *method = class_getInstanceMethod(class, selector);
  if (!method) fail("no such method: ", selector);
  return method->code;
}

/* For send.S. */
void *find_method(uint64_t receiver, const char *selector);
void *find_method(uint64_t receiver, const char *selector) {
  return code_of(object_getClass(receiver), selector);
}

typedef struct super {
  uint64_t receiver;
  class_t *class;
} super_t;
void *find_above(const super_t *super, const char *selector);
void *find_above(const super_t *super, const char *selector) {
  return code_of(super->class->above, selector);
}

/* ---- variables ------------------------------------------------------------------------------ */

EXPORT const variable_t *class_getInstanceVariable(const class_t *class, const char *name) {
  for (; class; class = class->above) {
    const variables_t *all = info_of(class)->variables;
    for (uint32_t i = 0; all && i < all->count; i++)
      if (all->entries[i].name && strcmp(all->entries[i].name, name) == 0) return &all->entries[i];
  }
  return NULL;
}

EXPORT ptrdiff_t ivar_getOffset(const variable_t *variable) { return *variable->offset; }

/* ---- images --------------------------------------------------------------------------------- */

static bool is_named(const struct section_64 *section, const char *name) {
  return strncmp(section->sectname, name, sizeof section->sectname) == 0;
}

static void take_section(const struct section_64 *section, intptr_t slide) {
  void **words = (void **)(section->addr + (uint64_t)slide);
  uint64_t count = section->size / sizeof *words;
  for (uint64_t i = 0; is_named(section, "__objc_selrefs") && i < count; i++)
    words[i] = (void *)sel_registerName(words[i]);
  for (uint64_t i = 0; is_named(section, "__objc_classlist") && i < count; i++) {
    if (class_count == CLASSES_MAX) fail("too many classes", "");
    classes[class_count] = words[i];
    classes[class_count]->class = (class_t *)((uint64_t)classes[class_count]->class | ISA_MARKS);
    class_count++;
    if (strcmp(info_of(words[i])->name, "Tagged") == 0) tagged_class = words[i];
  }
}

static void take_image(const struct mach_header *header, intptr_t slide) {
  const uint8_t *at = (const uint8_t *)((const struct mach_header_64 *)header + 1);
  for (uint32_t i = 0; i < header->ncmds; i++) {
    const struct segment_command_64 *s = (const struct segment_command_64 *)at;
    const struct section_64 *section = (const struct section_64 *)(s + 1);
    at += s->cmdsize;
    if (s->cmd != LC_SEGMENT_64) continue;
    for (uint32_t n = 0; n < s->nsects; n++)
      take_section(&section[n], slide);
  }
}

__attribute__((constructor)) static void begin(void) {
  _dyld_register_func_for_add_image(take_image);
}
