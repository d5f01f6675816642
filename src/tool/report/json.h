/* SPDX-License-Identifier: MIT
 *
 * Shared forms of sonde's JSON (docs/json.md): text is always UTF-8, addresses are "0x…", build-ids
 * are hexadecimal digits.
 */
#ifndef SONDE_REPORT_JSON_H
#define SONDE_REPORT_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

#define JSON_STYLE (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

/* json-c's functions of the same names, for documents that are built. If memory runs out, they
 * print an error and end the process with status 2: part of a document would look like a result. */
json_object *json_new_object(void);
json_object *json_new_array(void);
void json_add(json_object *object, const char *key, json_object *value);
void json_append(json_object *array, json_object *value);
const char *json_print(json_object *object, int style);

/* Reads the document in the file PATH; NULL: not JSON, or cannot be read. Reading ends at the first
 * invalid byte, so /dev/zero does no harm. */
json_object *json_read_file(const char *path);

/* A string object; bytes of TEXT that are not UTF-8 become U+FFFD. */
json_object *json_new_text(const char *text);

void json_add_text(json_object *object, const char *key, const char *text);
void json_add_number(json_object *object, const char *key, int64_t value);
void json_add_count(json_object *object, const char *key, uint64_t value);
void json_add_flag(json_object *object, const char *key, bool value);
void json_add_address(json_object *object, const char *key, uint64_t address);
void json_add_hex(json_object *object, const char *key, const uint8_t *bytes, size_t size);

/* The string at KEY; NULL: there is none, or OBJECT is not an object. */
const char *json_text_of(json_object *object, const char *key);
bool json_flag_of(json_object *object, const char *key);

/* Adds the known facts: function, function_offset, file, line, column, inlined. */
void json_add_function(json_object *object, const symbol_frame_t *function);

#endif
