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
#include "image/exported.h"

enum { FOUND_RUNTIME, FOUND_CODE_TYPE, FOUND_EVALUATOR, FOUND_VERSION, FOUND_COUNT };

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

static uint32_t version_of(const exported_t *found, const uint8_t *start, const char *path,
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
  exported_t found[FOUND_COUNT] = {[FOUND_RUNTIME] = {.name = "_PyRuntime"},
                                   [FOUND_CODE_TYPE] = {.name = "PyCode_Type"},
                                   [FOUND_EVALUATOR] = {.name = "_PyEval_EvalFrameDefault"},
                                   [FOUND_VERSION] = {.name = "Py_Version"}};
  uint8_t start[PYTHON_DEBUG_BYTES];
  *out = (python_runtime_t){0};
  if (!image_find_exported(image, found, FOUND_COUNT) || !found[FOUND_RUNTIME].address ||
      !found[FOUND_CODE_TYPE].address)
    return false;
  out->address = found[FOUND_RUNTIME].address;
  out->code_type = found[FOUND_CODE_TYPE].address;
  out->evaluator = found[FOUND_EVALUATOR].address;
  out->evaluator_bytes = found[FOUND_EVALUATOR].size;
  out->problem = "its memory is unreadable";
  if (!memory->read(memory, out->address, start, sizeof start)) return true;
  out->version = version_of(found, start, path, memory);
  const python_layout_t *layout = python_layout(out->version);
  out->problem = "sonde knows CPython 3.8 to 3.15";
  if (!layout) return true;
  out->problem = "it is a build without a global lock, or a changed CPython";
  if (python_debug_version(start) && !python_layout_agrees(layout, start)) return true;
  out->problem = NULL;
  out->layout = layout;
  return true;
}
