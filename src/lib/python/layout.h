/* SPDX-License-Identifier: MIT
 *
 * Where CPython 3.8 to 3.15 keeps its frames: offsets of fields in bytes, for 64-bit builds.
 *
 * The structures are private to CPython, and their layout is constant within a minor version. From
 * 3.13 on the program states the offsets itself, in `_Py_DebugOffsets` at the start of `_PyRuntime`
 * (CPython, Include/internal/pycore_debug_offsets.h); these are checked against the table. Source
 * of the table: offsetof in the headers of each version, Include/internal/pycore_*.h.
 *
 * Free-threaded builds are refused, and so are versions that the table does not list.
 */
#ifndef SONDE_PYTHON_LAYOUT_H
#define SONDE_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No structure has such a field. */
#define PYTHON_NO_FIELD UINT16_MAX

typedef struct python_layout {
  /* the version is 3.MINOR */
  uint16_t minor;
  /* _PyRuntimeState: the first interpreter, the key of a thread's state, the thread that ends the
   * interpreter, and the state of the thread that holds the global lock */
  uint16_t runtime_interpreters, runtime_key, runtime_finalizing, runtime_current;
  /* PyInterpreterState: the next one, its first thread state */
  uint16_t interpreter_next, interpreter_threads;
  /* the global lock, to 3.11 in _PyRuntimeState; a pointer to it in PyInterpreterState */
  uint16_t runtime_gil, interpreter_gil;
  /* PyThreadState; `frame` is the innermost frame, `cframe` the innermost C frame */
  uint16_t state_next, state_frame, state_cframe, state_root_cframe, state_thread, state_native;
  /* CFrame, a local variable of the evaluator */
  uint16_t cframe_current, cframe_previous;
  /* PyFrameObject to 3.10, _PyInterpreterFrame from 3.11 */
  uint16_t frame_code, frame_back, frame_instruction, frame_owner, frame_is_entry;
  /* its variables, behind which its stack of values begins; known for 3.11 and 3.12 */
  uint16_t frame_values;
  /* PyCodeObject */
  uint16_t code_file, code_name, code_qualname, code_first_line, code_lines, code_bytes;
  /* the same: its exception table, and the count of its variables */
  uint16_t code_exceptions, code_variables;
  /* where the characters of a string begin: ASCII, and other compact ones */
  uint16_t text_ascii, text_other;
} python_layout_t;

/* Fields with one place in all versions: ob_type of an object; size and data of a bytes object;
 * length and state of a string; the interpreter of a thread state. */
enum {
  PYTHON_OBJECT_TYPE = 8,
  PYTHON_BYTES_SIZE = 16,
  PYTHON_BYTES_DATA = 32,
  PYTHON_TEXT_LENGTH = 16,
  PYTHON_TEXT_STATE = 32,
  PYTHON_STATE_INTERPRETER = 16,
  /* as many bytes of a frame and of a code object as any version needs */
  PYTHON_FRAME_BYTES = 112,
  PYTHON_CODE_BYTES = 160,
};

/* The owner of the evaluator's own frame, from 3.12 on; later values are also no Python frames. */
#define PYTHON_OWNER_EVALUATOR 3

/* The code object in a frame's WORD. From 3.14 on, the lowest bit tells whether the frame counts as
 * a reference (CPython, Include/internal/pycore_stackref.h). */
static inline uint64_t python_code_in(const python_layout_t *layout, uint64_t word) {
  return layout->minor < 14 ? word : word & ~UINT64_C(1);
}

/* The layout of VERSION, the value of PY_VERSION_HEX; NULL: not known. Async-signal-safe. */
const python_layout_t *python_layout(uint32_t version);

/* Bytes at the start of _PyRuntime that python_layout_agrees reads. */
#define PYTHON_DEBUG_BYTES 456u

/* The version in START, the first bytes of a _PyRuntime of 3.13 or later; 0: it states none. */
uint32_t python_debug_version(const uint8_t start[PYTHON_DEBUG_BYTES]);

/* Whether START, as above, states the offsets of LAYOUT and a build with a global lock. */
bool python_layout_agrees(const python_layout_t *layout, const uint8_t start[PYTHON_DEBUG_BYTES]);

#endif
