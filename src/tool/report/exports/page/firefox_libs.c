/* SPDX-License-Identifier: MIT */
#include "report/exports/page/firefox_libs.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "report/frame_names.h"

static const char *file_name(const record_image_t *image) {
  const char *slash = strrchr(image->path, '/');
  return slash ? slash + 1 : image->path;
}

static bool is_same(const record_image_t *a, const record_image_t *b) {
  return !strcmp(a->path, b->path) && a->build_id_size == b->build_id_size &&
         (!a->build_id_size || !memcmp(a->build_id, b->build_id, a->build_id_size));
}

static uint64_t hash_of_path(const void *libs, size_t i) {
  return hash_text(HASH_START, ((const firefox_libs_t *)libs)->images.items[i]->path);
}

/* A library that was loaded again is listed once. */
static bool add_image(firefox_libs_t *libs, const record_image_t *image, page_names_t *names) {
  uint32_t *slot;
  if (!hash_reserve(&libs->index, libs->images.count, hash_of_path, libs)) return false;
  HASH_FIND(&libs->index, hash_text(HASH_START, image->path), slot) {
    if (is_same(libs->images.items[*slot - 1], image)) return true;
  }
  uint32_t *name = ARRAY_ADD(libs->names);
  const record_image_t **added = name ? ARRAY_ADD(libs->images) : NULL;
  if (!added) return false;
  *added = image;
  *name = page_text(names, file_name(image));
  *slot = (uint32_t)libs->images.count;
  return true;
}

bool firefox_libs_find(firefox_libs_t *libs, page_names_t *names) {
  size_t count;
  const record_image_t *images = reader_images(names->report->reader, &count);
  for (size_t i = 0; i < count; i++)
    if (!add_image(libs, &images[i], names)) return false;
  libs->of_text = calloc(names->texts.count + 1, sizeof *libs->of_text);
  if (!libs->of_text || names->failed) return false;
  for (size_t i = libs->images.count; i-- > 0;)
    libs->of_text[libs->names.items[i]] = (uint32_t)i + 1;
  libs->of_text[0] = 0; /* no library */
  return true;
}

/* Breakpad's form of the first 16 bytes: a GUID, whose first three numbers are little-endian, and
 * an age of 0 (breakpad, docs/symbol_files.md and src/common/linux/file_id.cc). */
static void put_breakpad_id(const record_image_t *image, page_stream_t *out) {
  static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
  char text[36] = "";
  for (size_t i = 0; image->build_id_size && i < sizeof order; i++)
    snprintf(text + 2 * i, 3, "%02X",
             order[i] < image->build_id_size ? image->build_id[order[i]] : 0);
  page_put(out, text);
  if (*text) page_put(out, "0");
}

static void put_image(const record_image_t *image, const char *arch, page_stream_t *out) {
  char id[FRAME_NAMES_ID_MAX];
  page_put(out, "{\"arch\":\"");
  page_put(out, arch);
  page_put(out, "\",\"name\":");
  page_put_json(out, file_name(image));
  page_put(out, ",\"path\":");
  page_put_json(out, image->path);
  page_put(out, ",\"debugName\":");
  page_put_json(out, file_name(image));
  page_put(out, ",\"debugPath\":");
  page_put_json(out, image->path);
  page_put(out, ",\"breakpadId\":\"");
  put_breakpad_id(image, out);
  page_put(out, "\",\"codeId\":");
  if (image->build_id_size)
    page_put_json(out, frame_names_build_id(image, id));
  else
    page_put(out, "null");
  page_put(out, "}");
}

void firefox_libs_put(const firefox_libs_t *libs, const reader_t *reader, page_stream_t *out) {
  const char *arch = reader_header(reader)->machine == EM_AARCH64 ? "arm64" : "x86_64";
  page_put(out, "[");
  for (size_t i = 0; i < libs->images.count; i++) {
    if (i) page_put(out, ",");
    put_image(libs->images.items[i], arch, out);
  }
  page_put(out, "]");
}

void firefox_libs_free(firefox_libs_t *libs) {
  free(libs->images.items);
  free(libs->names.items);
  free(libs->of_text);
  hash_free(&libs->index);
}
