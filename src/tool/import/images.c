/* SPDX-License-Identifier: MIT
 *
 * Reads lists of images. Skips other lines, so a whole crash report may be given. See images.h.
 */
#include "import/images.h"

#include <ctype.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define IMAGES_MAX 65536u

/* The size of the last image when its end is unknown. */
#define LAST_BYTES ((uint64_t)1 << 32)

/* ---- the list ----------------------------------------------------------------------------- */

static bool add(image_list_t *list, const listed_image_t *image, const char *path, size_t length) {
  if (list->count == IMAGES_MAX) return true;
  listed_image_t copy = *image;
  copy.path = strndup(path, length);
  if (!copy.path || !ARRAY_GROW(list->items, list->count, list->capacity)) {
    free(copy.path);
    return false;
  }
  list->items[list->count++] = copy;
  return true;
}

/* Of images at one address, the one with most facts sorts first. */
static int compare_starts(const void *left, const void *right) {
  const listed_image_t *a = left, *b = right;
  if (a->start != b->start) return a->start < b->start ? -1 : 1;
  if (a->has_uuid != b->has_uuid) return a->has_uuid ? -1 : 1;
  if ((a->path[0] == '/') != (b->path[0] == '/')) return a->path[0] == '/' ? -1 : 1;
  return strcmp(a->path, b->path);
}

static void drop_repeated(image_list_t *list) {
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++)
    if (kept && list->items[kept - 1].start == list->items[i].start)
      free(list->items[i].path);
    else
      list->items[kept++] = list->items[i];
  list->count = kept;
}

void images_finish(image_list_t *list) {
  if (list->count) qsort(list->items, list->count, sizeof *list->items, compare_starts);
  drop_repeated(list);
  for (size_t i = 0; i < list->count; i++) {
    listed_image_t *image = &list->items[i];
    uint64_t next = i + 1 < list->count ? list->items[i + 1].start : UINT64_MAX;
    if (image->end <= image->start)
      image->end = image->start > UINT64_MAX - LAST_BYTES ? UINT64_MAX : image->start + LAST_BYTES;
    if (image->end > next) image->end = next;
  }
}

void images_free(image_list_t *list) {
  for (size_t i = 0; i < list->count; i++)
    free(list->items[i].path);
  free(list->items);
  *list = (image_list_t){0};
}

long images_find(const image_list_t *list, uint64_t address) {
  size_t low = ARRAY_SEARCH(list->count, i, list->items[i].start <= address);
  return low && address < list->items[low - 1].end ? (long)low - 1 : -1;
}

/* ---- words -------------------------------------------------------------------------------- */

static bool read_uuid(const char *text, size_t length, uint8_t out[16]) {
  size_t digits = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] == '-') continue;
    if (!isxdigit((unsigned char)text[i]) || digits == 32) return false;
    const char *hex = "0123456789abcdef";
    unsigned value = (unsigned)(strchr(hex, tolower((unsigned char)text[i])) - hex);
    out[digits / 2] = (uint8_t)(digits % 2 ? (unsigned)out[digits / 2] << 4 | value : value);
    digits++;
  }
  return digits == 32;
}

static image_machine_t machine_of(const char *name, size_t length) {
  static const struct {
    const char *name;
    image_machine_t machine;
  } known[] = {{"arm64e", IMAGE_AARCH64}, {"arm64", IMAGE_AARCH64},    {"x86_64h", IMAGE_X86_64},
               {"x86_64", IMAGE_X86_64},  {"i386", IMAGE_I386},        {"armv7", IMAGE_ARMV7},
               {"armv7s", IMAGE_ARMV7},   {"arm64_32", IMAGE_ARM64_32}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strlen(known[i].name) == length && !memcmp(known[i].name, name, length))
      return known[i].machine;
  return IMAGE_MACHINE_UNKNOWN;
}

bool images_add(image_list_t *list, const image_words_t *words) {
  listed_image_t image = {.start = words->start};
  if (!words->path || !image.start) return true;
  if (words->size && image.start <= UINT64_MAX - words->size) image.end = image.start + words->size;
  if (words->uuid) image.has_uuid = read_uuid(words->uuid, strlen(words->uuid), image.uuid);
  if (words->arch) image.machine = machine_of(words->arch, strlen(words->arch));
  return add(list, &image, words->path, strlen(words->path));
}

/* ---- text --------------------------------------------------------------------------------- */

typedef struct text_line {
  const char *at, *end;
} text_line_t;

static size_t next_word(text_line_t *line, const char **word) {
  while (line->at < line->end && isspace((unsigned char)*line->at))
    line->at++;
  *word = line->at;
  while (line->at < line->end && !isspace((unsigned char)*line->at))
    line->at++;
  return (size_t)(line->at - *word);
}

static bool read_hex(const char *word, size_t length, bool prefixed, uint64_t *out) {
  uint64_t value = 0;
  bool has_prefix = length > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
  if (prefixed && !has_prefix) return false;
  if (has_prefix) word += 2, length -= 2;
  if (length == 0 || length > 16) return false;
  for (size_t i = 0; i < length; i++) {
    const char *hex = "0123456789abcdef";
    const char *digit = word[i] ? strchr(hex, tolower((unsigned char)word[i])) : NULL;
    if (!digit) return false;
    value = value << 4 | (uint64_t)(digit - hex);
  }
  *out = value;
  return true;
}

/* Adds an image whose path begins at the first slash of LINE; without a slash its path is NAME. */
static bool add_line(image_list_t *list, const listed_image_t *image, const text_line_t *line,
                     const char *name, size_t name_length) {
  const char *slash = memchr(line->at, '/', (size_t)(line->end - line->at)), *end = line->end;
  while (end > line->at && isspace((unsigned char)end[-1]))
    end--;
  if (slash && slash < end) return add(list, image, slash, (size_t)(end - slash));
  return name_length == 0 || add(list, image, name, name_length);
}

/* Words up to the path: NAME, ARCH, (VERSION), <UUID>. */
static void read_details(listed_image_t *image, text_line_t *line, const char **name,
                         size_t *name_length) {
  *name_length = 0;
  for (;;) {
    const char *word, *before = line->at;
    size_t length = next_word(line, &word);
    if (length == 0 || word[0] == '/') {
      line->at = before;
      return;
    }
    image_machine_t machine = machine_of(word, length);
    if (word[0] == '<' && length > 2) {
      image->has_uuid = read_uuid(word + 1, length - 2, image->uuid);
    } else if (machine != IMAGE_MACHINE_UNKNOWN) {
      image->machine = machine;
    } else if (*name_length == 0 && word[0] != '(') {
      *name = word + (word[0] == '+');
      *name_length = length - (word[0] == '+');
    }
  }
}

static bool read_line(image_list_t *list, text_line_t line) {
  listed_image_t image = {0};
  const char *word, *name = "";
  size_t length = next_word(&line, &word), name_length;
  if (length > 2 && word[0] == '[') { /* [  0] UUID 0xSTART PATH */
    length = next_word(&line, &word);
  } else if (length == 1 && word[0] == '[') {
    (void)next_word(&line, &word);
    length = next_word(&line, &word);
  }
  if (read_uuid(word, length, image.uuid)) {
    image.has_uuid = true;
    length = next_word(&line, &word);
  }
  if (!read_hex(word, length, true, &image.start)) return true;
  text_line_t rest = line;
  if (next_word(&rest, &word) == 1 && word[0] == '-') {
    length = next_word(&rest, &word);
    if (!read_hex(word, length, true, &image.end)) return true;
    image.end += image.end != UINT64_MAX; /* the list has the address of the last byte */
    line = rest;
  }
  read_details(&image, &line, &name, &name_length);
  return add_line(list, &image, &line, name, name_length);
}

bool images_add_text(image_list_t *list, const char *text, size_t size) {
  const char *end = text + size;
  while (text < end) {
    const char *newline = memchr(text, '\n', (size_t)(end - text));
    const char *stop = newline ? newline : end;
    if (!read_line(list, (text_line_t){text, stop})) return false;
    text = stop + 1;
  }
  return true;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static const char *text_of(json_object *object, const char *key) {
  json_object *value;
  if (!json_object_object_get_ex(object, key, &value) ||
      !json_object_is_type(value, json_type_string))
    return NULL;
  return json_object_get_string(value);
}

static uint64_t number_of(json_object *object, const char *key) {
  json_object *value;
  uint64_t number = 0;
  if (!json_object_object_get_ex(object, key, &value)) return 0;
  if (json_object_is_type(value, json_type_string)) {
    const char *text = json_object_get_string(value);
    (void)read_hex(text, strlen(text), true, &number);
    return number;
  }
  return json_object_get_uint64(value);
}

static bool read_object(image_list_t *list, json_object *object) {
  const char *path = text_of(object, "path");
  return images_add(list, &(image_words_t){.start = number_of(object, "base"),
                                           .size = number_of(object, "size"),
                                           .path = path ? path : text_of(object, "name"),
                                           .uuid = text_of(object, "uuid"),
                                           .arch = text_of(object, "arch")});
}

/* An .ips report has one line of JSON before the report. */
static json_object *parse(const char *text, size_t size) {
  json_tokener *tokener = json_tokener_new();
  json_object *document = NULL;
  for (int i = 0; tokener && size && i < 2 && size < INT32_MAX; i++) {
    json_object *used;
    json_tokener_reset(tokener);
    json_object_put(document);
    document = json_tokener_parse_ex(tokener, text, (int)size);
    if (!document || json_object_is_type(document, json_type_array) ||
        json_object_object_get_ex(document, "usedImages", &used))
      break;
    size_t used_bytes = json_tokener_get_parse_end(tokener);
    if (used_bytes > size) break;
    text += used_bytes;
    size -= used_bytes;
  }
  if (tokener) json_tokener_free(tokener);
  return document;
}

static bool read_json(image_list_t *list, const char *text, size_t size) {
  json_object *document = parse(text, size), *images = document;
  bool good = true;
  if (json_object_is_type(document, json_type_object) &&
      !json_object_object_get_ex(document, "usedImages", &images))
    images = NULL;
  if (json_object_is_type(images, json_type_array))
    for (size_t i = 0; good && i < json_object_array_length(images); i++)
      good = read_object(list, json_object_array_get_idx(images, i));
  json_object_put(document);
  return good;
}

bool images_read(image_list_t *list, const char *text, size_t size) {
  size_t first = 0;
  *list = (image_list_t){0};
  while (first < size && isspace((unsigned char)text[first]))
    first++;
  bool is_json = first < size && (text[first] == '{' ||
                                  (text[first] == '[' && memchr(text + first, '{', size - first)));
  bool good =
      is_json ? read_json(list, text + first, size - first) : images_add_text(list, text, size);
  if (good) images_finish(list);
  if (!good) images_free(list);
  return good;
}

/* ---- modules ------------------------------------------------------------------------------ */

symbol_module_t *images_module(symbolizer_t *symbolizer, const listed_image_t *image) {
  const symbol_source_t source = {.path = image->path,
                                  .build_id = image->uuid,
                                  .build_id_size = image->has_uuid ? 16 : 0,
                                  .machine = image->machine};
  return symbolizer_module(symbolizer, &source);
}

uint64_t images_link_base(symbol_module_t *module, const listed_image_t *image) {
  uint64_t base;
  if (module && symbol_link_base(module, &base)) return base;
  bool is_library = strstr(image->path, ".dylib") || strstr(image->path, ".framework/") ||
                    strstr(image->path, ".bundle/") || strstr(image->path, "/usr/lib/");
  return is_library || image->start < UINT64_C(0x100000000) ? 0 : UINT64_C(0x100000000);
}
