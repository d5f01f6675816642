/* SPDX-License-Identifier: MIT
 *
 * json-c does not check strings, so json_new_text makes them valid UTF-8.
 */
#include "report/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/message.h"
#include "base/unicode.h"

static void need(bool good) {
  if (good) return;
  fflush(stdout);
  _exit(message_fail("out of memory"));
}

static json_object *made(json_object *value) {
  need(value != NULL);
  return value;
}

json_object *json_new_object(void) { return made(json_object_new_object()); }
json_object *json_new_array(void) { return made(json_object_new_array()); }

void json_add(json_object *object, const char *key, json_object *value) {
  need(json_object_object_add(object, key, value) == 0);
}

void json_append(json_object *array, json_object *value) {
  need(json_object_array_add(array, value) == 0);
}

static void free_copy(json_object *object, void *copy) {
  (void)object;
  free(copy);
}

/* The control characters from U+0080 to U+009F that TEXT has: json-c escapes only those below. */
static size_t count_controls(const char *text) {
  size_t count = 0;
  for (const char *p = text; (p = strchr(p, '\xc2')); p++)
    count += unicode_control(p) == 2;
  return count;
}

/* A copy of TEXT, which lives as long as OBJECT, with its COUNT control characters escaped. */
static const char *escape_controls(json_object *object, const char *text, size_t count) {
  char *copy = malloc(strlen(text) + 4 * count + 1), *q = copy;
  need(copy != NULL);
  for (const char *p = text; *p;) {
    if (unicode_control(p) == 2) {
      q += snprintf(q, 7, "\\u%04x", (unsigned char)p[1]);
      p += 2;
    } else {
      *q++ = *p++;
    }
  }
  *q = 0;
  json_object_set_userdata(object, copy, free_copy);
  return copy;
}

const char *json_print(json_object *object, int style) {
  const char *text = json_object_to_json_string_ext(object, style);
  need(text != NULL);
  size_t controls = count_controls(text);
  return controls ? escape_controls(object, text, controls) : text;
}

json_object *json_read_file(const char *path) {
  char buffer[65536];
  json_object *document = NULL;
  FILE *file = fopen(path, "re");
  json_tokener *tokener = file ? json_tokener_new() : NULL;
  while (tokener && !document) {
    size_t count = fread(buffer, 1, sizeof buffer, file);
    if (!count) break;
    document = json_tokener_parse_ex(tokener, buffer, (int)count);
    if (json_tokener_get_error(tokener) != json_tokener_continue) break;
  }
  if (tokener) json_tokener_free(tokener);
  if (file) fclose(file);
  return document;
}

json_object *json_new_text(const char *text) {
  if (unicode_is_valid(text)) return json_object_new_string(text);
  char *clean = malloc(UNICODE_CLEAN_SIZE(strlen(text)));
  if (!clean) return NULL;
  size_t size = unicode_clean(text, clean);
  json_object *object = json_object_new_string_len(clean, (int)size);
  free(clean);
  return object;
}

void json_add_text(json_object *object, const char *key, const char *text) {
  json_add(object, key, made(json_new_text(text)));
}

void json_add_number(json_object *object, const char *key, int64_t value) {
  json_add(object, key, made(json_object_new_int64(value)));
}

void json_add_count(json_object *object, const char *key, uint64_t value) {
  json_add(object, key, made(json_object_new_uint64(value)));
}

void json_add_flag(json_object *object, const char *key, bool value) {
  json_add(object, key, made(json_object_new_boolean(value)));
}

void json_add_address(json_object *object, const char *key, uint64_t address) {
  char text[24];
  snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
  json_add(object, key, made(json_object_new_string(text)));
}

void json_add_hex(json_object *object, const char *key, const uint8_t *bytes, size_t size) {
  char text[129];
  if (size > 64) size = 64;
  for (size_t i = 0; i < size; i++)
    snprintf(text + 2 * i, 3, "%02x", bytes[i]);
  text[2 * size] = 0;
  json_add(object, key, made(json_object_new_string(text)));
}

void json_add_function(json_object *object, const symbol_frame_t *function) {
  if (function->function) json_add_text(object, "function", function->function);
  if (function->has_offset) json_add_address(object, "function_offset", function->function_offset);
  if (function->file) json_add_text(object, "file", function->file);
  if (function->line) json_add_number(object, "line", function->line);
  if (function->column) json_add_number(object, "column", function->column);
  if (function->inlined) json_add_flag(object, "inlined", true);
}

const char *json_text_of(json_object *object, const char *key) {
  json_object *value;
  if (!json_object_object_get_ex(object, key, &value) ||
      !json_object_is_type(value, json_type_string))
    return NULL;
  return json_object_get_string(value);
}

bool json_flag_of(json_object *object, const char *key) {
  json_object *value;
  return json_object_object_get_ex(object, key, &value) && json_object_get_boolean(value);
}
