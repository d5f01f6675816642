/* SPDX-License-Identifier: MIT */
#include "store/push/labels.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/frame_names.h"
#include "store/push/push.h"
#include "store/session.h"

#define SERVICE "service.name"
enum { SERVICE_MAX = 512 };

void push_service(const push_target_t *target, const reader_t *reader, char *out, size_t out_size) {
  const char *set = push_target_value(target, SERVICE);
  if (set && *set)
    snprintf(out, out_size, "%s", set);
  else
    snprintf(out, out_size, "unknown_service:%s", session_program(reader));
}

static bool add_number(labels_t *l, const char *name, int64_t number) {
  otlp_attribute_t *added = ARRAY_ADD(l->list);
  if (added) *added = (otlp_attribute_t){.key = name, .number = number};
  return added != NULL;
}

static bool add(labels_t *l, const char *name, const char *text) {
  const otlp_attribute_t label = {.key = pool_text(&l->pool, name),
                                  .text = pool_text(&l->pool, text)};
  otlp_attribute_t *added = label.key && label.text ? ARRAY_ADD(l->list) : NULL;
  if (added) *added = label;
  return added != NULL;
}

static int by_name(const void *left, const void *right) {
  const otlp_attribute_t *a = left, *b = right;
  return strcmp(a->key, b->key);
}

/* Of equal names, the last one that was added stays. */
static void sort_and_join(labels_t *l) {
  size_t kept = 0;
  for (size_t i = 0; i < l->list.count; i++) {
    bool is_last = true;
    for (size_t j = i + 1; is_last && j < l->list.count; j++)
      is_last = strcmp(l->list.items[i].key, l->list.items[j].key) != 0;
    if (is_last) l->list.items[kept++] = l->list.items[i];
  }
  l->list.count = kept;
  if (kept) qsort(l->list.items, kept, sizeof *l->list.items, by_name);
}

bool labels_of_resource(labels_t *out, const push_target_t *target, const reader_t *reader) {
  char build_id[FRAME_NAMES_ID_MAX], service[SERVICE_MAX];
  const record_image_t *image = session_executable(reader);
  *out = (labels_t){0};
  bool good = add_number(out, "process.pid", reader_header(reader)->pid) &&
              add(out, "process.executable.name", session_program(reader));
  if (good && image && image->build_id_size)
    good = add(out, "process.executable.build_id.gnu", frame_names_build_id(image, build_id));
  for (size_t i = 0; good && i < target->context.count; i++)
    good = add(out, target->context.items[i].name, target->context.items[i].value);
  for (size_t i = 0; good && i < target->labels.count; i++)
    good = add(out, target->labels.items[i].name, target->labels.items[i].value);
  push_service(target, reader, service, sizeof service);
  good = good && add(out, SERVICE, service);
  sort_and_join(out);
  return good;
}

static const char *series_name(labels_t *l, const char *name) {
  bool needs_first = isdigit((unsigned char)*name);
  char *copy = pool_array(&l->pool, strlen(name) + 2, 1);
  if (!copy) return "";
  sprintf(copy, "%s%s", needs_first ? "_" : "", name);
  for (char *c = copy; *c; c++)
    if (!isalnum((unsigned char)*c)) *c = '_';
  return copy;
}

static bool add_series(labels_t *out, const push_label_t *labels, size_t count,
                       const char *service) {
  bool good = true;
  for (size_t i = 0; good && i < count; i++) {
    bool is_service = !strcmp(labels[i].name, SERVICE);
    good = add(out, series_name(out, labels[i].name), is_service ? service : labels[i].value);
  }
  return good;
}

bool labels_of_series(labels_t *out, const push_target_t *target, const reader_t *reader,
                      const char *name) {
  char service[SERVICE_MAX];
  *out = (labels_t){0};
  push_service(target, reader, service, sizeof service);
  bool good = add(out, "service_name", service);
  good = good && add_series(out, target->context.items, target->context.count, service) &&
         add_series(out, target->labels.items, target->labels.count, service);
  good = good && add(out, "__name__", name);
  sort_and_join(out);
  return good;
}

void labels_free(labels_t *l) {
  free(l->list.items);
  pool_free(&l->pool);
}
