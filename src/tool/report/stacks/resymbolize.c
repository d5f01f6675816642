/* SPDX-License-Identifier: MIT
 *
 * A pc is one frame in the JSON, or a run of frames with `inlined` and the frame that contains
 * them. A run is replaced as a whole, because only the debug file knows the inlined functions.
 */
#include "report/stacks/resymbolize.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "report/json.h"

#define BUILD_ID_MAX 64

static bool address_of(json_object *frame, const char *key, uint64_t *address) {
  const char *text = json_text_of(frame, key);
  char *end;
  if (!text || strncmp(text, "0x", 2) || !isxdigit((unsigned char)text[2])) return false;
  *address = strtoull(text, &end, 16);
  return !*end;
}

static size_t build_id_of(json_object *frame, uint8_t *out) {
  const char *text = json_text_of(frame, "build_id");
  size_t digits = text ? strlen(text) : 0;
  if (digits % 2 || digits > 2 * BUILD_ID_MAX) return 0;
  for (size_t i = 0; i < digits; i += 2) {
    char pair[3] = {text[i], text[i + 1], 0}, *end;
    out[i / 2] = (uint8_t)strtoul(pair, &end, 16);
    if (*end) return 0;
  }
  return digits / 2;
}

static int look_up(json_object *frame, symbolizer_t *symbolizer, symbol_frame_t *functions) {
  uint8_t id[BUILD_ID_MAX];
  uint64_t offset;
  symbol_source_t source = {.path = json_text_of(frame, "module"), .build_id = id};
  source.build_id_size = build_id_of(frame, id);
  if (!source.build_id_size || !address_of(frame, "offset", &offset)) return 0;
  symbol_module_t *module = symbolizer_module(symbolizer, &source);
  if (!module) return 0;
  bool exact = json_flag_of(frame, "exact");
  symbol_reason_t reason;
  int count = symbol_lookup(module, offset - !exact, functions, SYMBOL_FRAMES_MAX, &reason);
  if (count && functions[count - 1].has_offset && !exact) functions[count - 1].function_offset++;
  return count;
}

/* The keys that symbolization replaces. */
static bool is_name(const char *key) {
  static const char *const keys[] = {"function", "function_offset", "file", "line",
                                     "column",   "inlined",         "why"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!strcmp(key, keys[i])) return true;
  return false;
}

static json_object *with_function(json_object *frame, const symbol_frame_t *function) {
  json_object *object = json_new_object();
  json_object_object_foreach(frame, key, value) {
    if (!is_name(key)) json_add(object, key, json_object_get(value));
  }
  json_add_function(object, function);
  return object;
}

/* Appends the frames FROM to LAST of OLD, which are one pc, to NEW. Returns how many were named. */
static long resymbolize_run(json_object *old, size_t from, size_t last, json_object *new,
                            symbolizer_t *symbolizer) {
  symbol_frame_t functions[SYMBOL_FRAMES_MAX];
  json_object *frame = json_object_array_get_idx(old, last);
  int count = look_up(frame, symbolizer, functions);
  for (int i = 0; i < count; i++)
    json_append(new, with_function(frame, &functions[i]));
  for (size_t i = from; !count && i <= last; i++)
    json_append(new, json_object_get(json_object_array_get_idx(old, i)));
  return count;
}

static long resymbolize_frames(json_object *thread, json_object *old, symbolizer_t *symbolizer) {
  json_object *new = json_new_array();
  size_t count = json_object_array_length(old), from = 0;
  long named = 0;
  for (size_t i = 0; i < count; i++) {
    if (json_flag_of(json_object_array_get_idx(old, i), "inlined") && i + 1 < count) continue;
    named += resymbolize_run(old, from, i, new, symbolizer);
    from = i + 1;
  }
  json_add(thread, "frames", new);
  return named;
}

long resymbolize_stacks(json_object *document, symbolizer_t *symbolizer) {
  json_object *threads, *frames;
  long named = 0;
  if (!json_object_object_get_ex(document, "threads", &threads) ||
      !json_object_is_type(threads, json_type_array))
    return -1;
  for (size_t i = 0; i < json_object_array_length(threads); i++) {
    json_object *thread = json_object_array_get_idx(threads, i);
    if (json_object_object_get_ex(thread, "frames", &frames) &&
        json_object_is_type(frames, json_type_array))
      named += resymbolize_frames(thread, frames, symbolizer);
  }
  return named;
}

void resymbolize_read(json_object *frame, symbol_frame_t *function) {
  json_object *value;
  *function = (symbol_frame_t){.function = json_text_of(frame, "function"),
                               .file = json_text_of(frame, "file"),
                               .inlined = json_flag_of(frame, "inlined")};
  function->raw = function->function;
  function->has_offset = address_of(frame, "function_offset", &function->function_offset);
  if (json_object_object_get_ex(frame, "line", &value))
    function->line = (uint32_t)json_object_get_int64(value);
  if (json_object_object_get_ex(frame, "column", &value))
    function->column = (uint32_t)json_object_get_int64(value);
}
