/* SPDX-License-Identifier: MIT
 *
 * _PyRuntime, PyCode_Type and _PyEval_EvalFrameDefault are in the dynamic symbol table of every
 * CPython from 3.8 on, stripped or not. Py_Version is there from 3.11 on, and from 3.13 on
 * _PyRuntime begins with the version. An older version is in the name of the file:
 * "libpython3.9.so.1.0" or "python3.9".
 */
#include "python/find.h"

#include "base/bits.h"
#include "base/text.h"
#include "image/elf/format.h"

/* Offsets in an Elf64_Sym. */
enum { SYMBOL_NAME = 0, SYMBOL_SECTION = 6, SYMBOL_VALUE = 8, SYMBOL_SIZE = 16, SYMBOL_BYTES = 24 };
enum { FOUND_RUNTIME, FOUND_CODE_TYPE, FOUND_EVALUATOR, FOUND_VERSION, FOUND_COUNT };

static const char *const wanted[FOUND_COUNT] = {"_PyRuntime", "PyCode_Type",
                                                "_PyEval_EvalFrameDefault", "Py_Version"};

typedef struct found {
  uint64_t address, size;
} found_t;

/* Whether NAMES has NAME at AT. */
static bool is_name(const section_t *names, uint64_t at, const char *name) {
  for (;; at++, name++) {
    if (at >= names->size || names->data[at] != (uint8_t)*name) return false;
    if (!*name) return true;
  }
}

static void find_symbols(const image_t *image, found_t found[FOUND_COUNT]) {
  const elf_shape_t shape = {.is_64bit = true};
  const section_t *symbols = &image->dynsym, *names = &image->dynsym_names;
  for (uint64_t at = 0; at + SYMBOL_BYTES <= symbols->size; at += SYMBOL_BYTES) {
    const uint8_t *symbol = symbols->data + at;
    uint32_t name = elf_u32(shape, symbol + SYMBOL_NAME);
    if (name >= names->size || (names->data[name] != '_' && names->data[name] != 'P')) continue;
    if (elf_u16(shape, symbol + SYMBOL_SECTION) == ELF_SHN_UNDEF) continue;
    for (int i = 0; i < FOUND_COUNT; i++)
      if (is_name(names, name, wanted[i]))
        found[i] = (found_t){elf_u64(shape, symbol + SYMBOL_VALUE) + image->slide,
                             elf_u64(shape, symbol + SYMBOL_SIZE)};
  }
}

/* The version in the name of a file, as PY_VERSION_HEX without its lower half; 0: none. */
static uint32_t version_of_path(const char *path) {
  for (const char *p = path; *p; p++) {
    const char *number = text_after(p, "python3.");
    uint32_t minor = 0;
    if (!number) continue;
    while (*number >= '0' && *number <= '9' && minor < 100)
      minor = minor * 10 + (uint32_t)(*number++ - '0');
    if (minor) return 3u << 24 | minor << 16;
  }
  return 0;
}

static uint32_t version_of(const found_t *found, const uint8_t *start, const char *path,
                           memory_t *memory) {
  uint64_t version;
  uint32_t stated = python_debug_version(start);
  if (stated) return stated;
  if (found[FOUND_VERSION].address &&
      memory->read(memory, found[FOUND_VERSION].address, &version, sizeof version))
    return (uint32_t)version;
  return version_of_path(path);
}

bool python_find(const image_t *image, const char *path, memory_t *memory, python_runtime_t *out) {
  found_t found[FOUND_COUNT] = {{0, 0}};
  uint8_t start[PYTHON_DEBUG_BYTES];
  *out = (python_runtime_t){0};
  if (image->is_macho || !image->is_64bit || image->is_big_endian || !image->dynsym.data)
    return false;
  find_symbols(image, found);
  if (!found[FOUND_RUNTIME].address || !found[FOUND_CODE_TYPE].address) return false;
  out->address = found[FOUND_RUNTIME].address;
  out->code_type = found[FOUND_CODE_TYPE].address;
  out->evaluator = found[FOUND_EVALUATOR].address;
  out->evaluator_bytes = found[FOUND_EVALUATOR].size;
  out->problem = "its memory is unreadable";
  if (!memory->read(memory, out->address, start, sizeof start)) return true;
  out->version = version_of(found, start, path, memory);
  const python_layout_t *layout = python_layout(out->version);
  out->problem = "sonde knows CPython 3.8 to 3.13";
  if (!layout) return true;
  out->problem = "it is a build without a global lock, or a changed CPython";
  if (python_debug_version(start) && !python_layout_agrees(layout, start)) return true;
  out->problem = NULL;
  out->layout = layout;
  return true;
}
