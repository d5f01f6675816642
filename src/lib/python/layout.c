/* SPDX-License-Identifier: MIT */
#include "python/layout.h"

#include "base/bits.h"
#include "base/load.h"
#include <string.h>

#define NO PYTHON_NO_FIELD

#define NO_VALUES .frame_values = NO, .code_exceptions = NO, .code_variables = NO
/* A frame is a PyFrameObject, one for each call of the evaluator. */
#define TO_3_10                                                                                    \
  .runtime_interpreters = 32, .runtime_finalizing = 16, .interpreter_next = 0,                     \
  .interpreter_threads = 8, .state_next = 8, .state_frame = 24, .state_thread = 176,               \
  .state_native = NO, .interpreter_gil = NO, .cframe_current = NO, .frame_code = 32,               \
  .frame_back = 24, .frame_owner = NO, .frame_is_entry = NO, .code_file = 104, .code_name = 112,   \
  .code_qualname = 112, .code_first_line = 40, .code_lines = 120, .code_bytes = NO,                \
  .text_ascii = 48, .text_other = 72, NO_VALUES
/* A frame is an _PyInterpreterFrame; one call of the evaluator may run several. */
#define FROM_3_11                                                                                  \
  .state_next = 8, .frame_instruction = 56, .code_file = 112, .code_name = 120,                    \
  .code_qualname = 128, .code_lines = 136
/* The outermost frame of a call of the evaluator is a local variable of the evaluator. */
#define FROM_3_12                                                                                  \
  FROM_3_11, .runtime_current = NO, .runtime_gil = NO, .frame_code = 0, .frame_back = 8,           \
             .frame_is_entry = NO, .code_first_line = 68, .text_ascii = 40, .text_other = 56
#define NO_CFRAME                                                                                  \
  .state_cframe = NO, .state_root_cframe = NO, .cframe_current = NO, .cframe_previous = NO

static const python_layout_t layouts[] = {
    {TO_3_10, .minor = 8, .runtime_gil = 1152, .runtime_key = 1392, .runtime_current = 1368,
     .state_cframe = NO, .state_root_cframe = NO, .cframe_previous = NO, .frame_instruction = 104},
    {TO_3_10, .minor = 9, .runtime_gil = 352, .runtime_key = 584, .runtime_current = 568,
     .state_cframe = NO, .state_root_cframe = NO, .cframe_previous = NO, .frame_instruction = 104},
    {TO_3_10, .minor = 10, .runtime_gil = 352, .runtime_key = 584, .runtime_current = 568,
     .state_cframe = 48, .state_root_cframe = 264, .cframe_previous = 8, .frame_instruction = 96},
    {FROM_3_11,
     .minor = 11,
     .runtime_interpreters = 40,
     .runtime_key = 592,
     .runtime_finalizing = 24,
     .runtime_current = 576,
     .interpreter_next = 0,
     .interpreter_threads = 16,
     .runtime_gil = 360,
     .interpreter_gil = NO,
     .state_frame = NO,
     .state_cframe = 56,
     .state_root_cframe = 336,
     .state_thread = 152,
     .state_native = 160,
     .cframe_current = 8,
     .cframe_previous = 16,
     .frame_code = 32,
     .frame_back = 48,
     .frame_owner = 69,
     .frame_is_entry = 68,
     .code_first_line = 72,
     .frame_values = 72,
     .code_exceptions = 40,
     .code_variables = 76,
     .code_bytes = 184,
     .text_ascii = 48,
     .text_other = 72},
    {FROM_3_12,
     .minor = 12,
     .interpreter_gil = 384,
     .runtime_interpreters = 40,
     .runtime_key = 1544,
     .runtime_finalizing = 24,
     .interpreter_next = 0,
     .interpreter_threads = 72,
     .state_frame = NO,
     .state_cframe = 56,
     .state_root_cframe = 272,
     .state_thread = 136,
     .state_native = 144,
     .frame_owner = 70,
     .cframe_current = 0,
     .cframe_previous = 8,
     .code_bytes = 192,
     .frame_values = 72,
     .code_exceptions = 40,
     .code_variables = 72},
    {FROM_3_12, NO_CFRAME, NO_VALUES, .minor = 13, .interpreter_gil = 16,
     .runtime_interpreters = 632, .runtime_key = 2160, .runtime_finalizing = 608,
     .interpreter_next = 7264, .interpreter_threads = 7344, .state_frame = 72, .state_thread = 152,
     .state_native = 160, .frame_owner = 70, .code_bytes = 200},
    {FROM_3_12, NO_CFRAME, NO_VALUES, .minor = 14, .interpreter_gil = 16,
     .runtime_interpreters = 808, .runtime_key = 2336, .runtime_finalizing = 784,
     .interpreter_next = 7272, .interpreter_threads = 7344, .state_frame = 72, .state_thread = 152,
     .state_native = 160, .frame_owner = 74, .code_bytes = 208},
    {FROM_3_12, NO_CFRAME, NO_VALUES, .minor = 15, .interpreter_gil = 16,
     .runtime_interpreters = 936, .runtime_key = NO, .runtime_finalizing = 912,
     .interpreter_next = 7264, .interpreter_threads = 7336, .state_frame = 72, .state_thread = 176,
     .state_native = 184, .frame_owner = 74, .code_bytes = 208},
};

const python_layout_t *python_layout(uint32_t version) {
  if (version >> 24 != 3) return NULL;
  for (size_t i = 0; i < ARRAY_COUNT(layouts); i++)
    if (layouts[i].minor == (version >> 16 & 0xff)) return &layouts[i];
  return NULL;
}

/* ---- what 3.13 and later state themselves --------------------------------------------------- */

uint32_t python_debug_version(const uint8_t start[PYTHON_DEBUG_BYTES]) {
  static const char cookie[] = "xdebugpy";
  return memcmp(start, cookie, 8) == 0 ? (uint32_t)load64(start + 8) : 0;
}

bool python_layout_agrees(const python_layout_t *layout, const uint8_t start[PYTHON_DEBUG_BYTES]) {
  if (layout->minor < 13) return false;
  /* Places of the words in _Py_DebugOffsets of 3.13, 3.14 and 3.15. */
  const struct {
    uint16_t places[3], offset;
  } words[] = {
      {{16, 16, 16}, 0}, /* free_threaded */
      {{32, 32, 32}, layout->runtime_finalizing},
      {{40, 40, 40}, layout->runtime_interpreters},
      {{64, 64, 64}, layout->interpreter_next},
      {{72, 72, 72}, layout->interpreter_threads},
      {{112, 120, 120}, layout->interpreter_gil},
      {{168, 192, 192}, layout->state_next},
      {{184, 208, 208}, layout->state_frame},
      {{192, 216, 240}, layout->state_thread},
      {{200, 224, 248}, layout->state_native},
      {{232, 256, 320}, layout->frame_back},
      {{240, 264, 328}, layout->frame_code},
      {{248, 272, 336}, layout->frame_instruction},
      {{264, 288, 352}, layout->frame_owner},
      {{280, 320, 384}, layout->code_file},
      {{288, 328, 392}, layout->code_name},
      {{296, 336, 400}, layout->code_qualname},
      {{304, 344, 408}, layout->code_lines},
      {{312, 352, 416}, layout->code_first_line},
      {{344, 384, 448}, layout->code_bytes},
  };
  for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
    uint16_t place = words[i].places[layout->minor - 13];
    if (load64(start + place) != words[i].offset) return false;
  }
  return true;
}
