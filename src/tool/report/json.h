/* SPDX-License-Identifier: MIT
 *
 * The few shapes that all of sonde's JSON is made of (docs/json.md): text that is always UTF-8,
 * addresses as "0x…", build-ids as hexadecimal digits.
 */
#ifndef SONDE_REPORT_JSON_H
#define SONDE_REPORT_JSON_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

#define JSON_STYLE (JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE)

/* The document in the file at PATH, or NULL when it is none or cannot be read. What is not JSON is
 * noticed at its first wrong byte, so that /dev/zero costs nothing. */
json_object *json_read_file(const char *path);

/* A string object; bytes of TEXT that are no UTF-8 become U+FFFD. */
json_object *json_new_text(const char *text);

void json_add_text(json_object *object, const char *key, const char *text);
void json_add_number(json_object *object, const char *key, int64_t value);
void json_add_count(json_object *object, const char *key, uint64_t value);
void json_add_flag(json_object *object, const char *key, bool value);
void json_add_address(json_object *object, const char *key, uint64_t address);
void json_add_hex(json_object *object, const char *key, const uint8_t *bytes, size_t size);

/* The string at KEY of an object, NULL when there is none. OBJECT may be anything. */
const char *json_text_of(json_object *object, const char *key);
bool json_flag_of(json_object *object, const char *key);

/* What is known of a frame's function: function, function_offset, file, line, column, inlined. */
void json_add_function(json_object *object, const symbol_frame_t *function);

#endif
