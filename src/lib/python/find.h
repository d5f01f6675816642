/* SPDX-License-Identifier: MIT
 *
 * Recognizes the image that contains a Python interpreter, by the data that it exports.
 */
#ifndef SONDE_PYTHON_FIND_H
#define SONDE_PYTHON_FIND_H

#include "image/image.h"
#include "python/layout.h"
#include "unwind/memory.h"

typedef struct python_runtime {
  /* NULL: not known, see `problem` */
  const python_layout_t *layout;
  /* run-time addresses of _PyRuntime and PyCode_Type */
  uint64_t address, code_type;
  /* the evaluator, without the parts that the compiler moved elsewhere */
  uint64_t evaluator, evaluator_bytes;
  /* PY_VERSION_HEX; 0: unknown */
  uint32_t version;
  /* static text; NULL: none */
  const char *problem;
} python_runtime_t;

/* True if IMAGE, loaded from PATH, has an interpreter; MEMORY is that of its process. The layout is
 * NULL if it has one that is not supported, and then `problem` says why. Async-signal-safe if the
 * memory_t is and IMAGE stays loaded. */
bool python_find(const image_t *image, const char *path, memory_t *memory, python_runtime_t *out);

#endif
