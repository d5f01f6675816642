/* SPDX-License-Identifier: MIT
 *
 * The rules are those of cv_name and gv_efullname in Perl's pad.c and gv.c. A function has a name
 * of its own, or that of the glob in which it was defined.
 */
#include "target/interpreter/perl/names.h"

#include <string.h>

#include "base/load.h"
#include "target/interpreter/perl/layout.h"

/* The text that is being made. */
typedef struct output {
  perl_pages_t *pages;
  char *text;
  size_t size;
} output_t;

static bool append(output_t *o, const char *text) {
  size_t used = strlen(o->text), length = strlen(text);
  if (length >= o->size - used) return false;
  memcpy(o->text + used, text, length + 1);
  return true;
}

/* Appends LENGTH bytes at ADDRESS. A name may contain a byte 0, which ends it here. */
static bool append_bytes(output_t *o, uint64_t address, uint64_t length) {
  size_t used = strlen(o->text);
  if (length >= o->size - used) return false;
  if (length && !perl_read(o->pages, address, o->text + used, (size_t)length)) return false;
  o->text[used + length] = 0;
  return true;
}

/* Appends the name (HEK) at ADDRESS. */
static bool append_name(output_t *o, uint64_t address) {
  uint8_t head[PERL_NAME_TEXT];
  return address % 4 == 0 && perl_read(o->pages, address, head, sizeof head) &&
         append_bytes(o, address + PERL_NAME_TEXT, load32(head + PERL_NAME_LENGTH));
}

/* Reads the value (SV) at ADDRESS and SIZE bytes of its body. */
static bool read_value(perl_pages_t *p, uint64_t address, uint8_t value[PERL_VALUE_BYTES],
                       uint8_t *body, size_t size) {
  return address % 8 == 0 && perl_read(p, address, value, PERL_VALUE_BYTES) &&
         load64(value + PERL_VALUE_BODY) % 8 == 0 &&
         perl_read(p, load64(value + PERL_VALUE_BODY), body, size);
}

static uint32_t type_of(const uint8_t *value) {
  return load32(value + PERL_VALUE_FLAGS) & PERL_VALUE_TYPES;
}

/* Sets *NAME to that of the package at ADDRESS; 0: it has none. */
static bool name_of_package(perl_pages_t *p, uint64_t address, uint64_t *name) {
  uint8_t value[PERL_VALUE_BYTES], body[PERL_PACKAGE_BYTES];
  *name = 0;
  if (!address) return true;
  if (!read_value(p, address, value, body, 32) || type_of(value) != PERL_VALUE_HASH) return false;
  if (!(load32(value + PERL_VALUE_FLAGS) & PERL_IS_PACKAGE)) return true;
  if (!read_value(p, address, value, body, sizeof body)) return false;
  *name = load64(body + PERL_PACKAGE_NAME);
  /* A package with several names refers to an array of them. */
  return !*name || !load32(body + PERL_PACKAGE_NAME_COUNT) || perl_word(p, *name, name);
}

static bool append_qualified(output_t *o, uint64_t package, uint64_t name) {
  uint64_t of_package;
  return name_of_package(o->pages, package, &of_package) &&
         (of_package ? append_name(o, of_package) : append(o, "__ANON__")) && append(o, "::") &&
         append_name(o, name);
}

static bool is_glob(const uint8_t *value) {
  return (type_of(value) == PERL_VALUE_GLOB || type_of(value) == PERL_VALUE_SCALAR) &&
         (load32(value + PERL_VALUE_FLAGS) & PERL_IS_GLOB) == PERL_IS_GLOB_VALUE;
}

/* Appends the name of the glob at ADDRESS, or of the one that it was assigned from. */
static bool append_glob(output_t *o, uint64_t address, bool is_qualified) {
  uint8_t value[PERL_VALUE_BYTES], body[PERL_GLOB_BYTES];
  uint64_t effective;
  if (!read_value(o->pages, address, value, body, sizeof body) || !is_glob(value) ||
      !perl_word(o->pages, load64(value + PERL_VALUE_DATA) + PERL_GLOB_EFFECTIVE, &effective))
    return false;
  if (effective && effective != address &&
      (!read_value(o->pages, effective, value, body, sizeof body) || !is_glob(value)))
    return false;
  uint64_t name = load64(body + PERL_GLOB_NAME);
  return is_qualified ? append_qualified(o, load64(body + PERL_GLOB_PACKAGE), name)
                      : append_name(o, name);
}

bool perl_append_function(perl_pages_t *p, uint64_t address, char *text, size_t size) {
  uint8_t value[PERL_VALUE_BYTES], body[PERL_CODE_BYTES];
  output_t o = {p, text, size};
  if (!read_value(p, address, value, body, sizeof body) || type_of(value) != PERL_VALUE_CODE)
    return false;
  uint64_t name = load64(body + PERL_CODE_NAME);
  uint32_t flags = load32(body + PERL_CODE_FLAGS);
  bool is_qualified = !(flags & PERL_CODE_IS_LEXICAL);
  if (!name) return append(&o, "(unknown)");
  if (!(flags & PERL_CODE_IS_NAMED)) return append_glob(&o, name, is_qualified);
  return is_qualified ? append_qualified(&o, load64(body + PERL_CODE_PACKAGE), name)
                      : append_name(&o, name);
}

bool perl_append_value(perl_pages_t *p, uint64_t address, char *text, size_t size) {
  uint8_t value[PERL_VALUE_BYTES], body[PERL_TEXT_LENGTH + 8];
  output_t o = {p, text, size};
  return read_value(p, address, value, body, sizeof body) &&
         load32(value + PERL_VALUE_FLAGS) & PERL_HAS_TEXT &&
         append_bytes(&o, load64(value + PERL_VALUE_DATA), load64(body + PERL_TEXT_LENGTH));
}
