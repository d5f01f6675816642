/* SPDX-License-Identifier: MIT
 *
 * Copies of texts from records, which live as long as their list. A list begins as NULL. One thread
 * uses a list.
 */
#ifndef SONDE_ANALYSIS_TEXTS_H
#define SONDE_ANALYSIS_TEXTS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct text_copy {
  struct text_copy *next;
  char text[];
} text_copy_t;

/* A copy of SIZE bytes, terminated, in front of the list. NULL when memory runs out. */
static inline const char *texts_add(text_copy_t **list, const uint8_t *bytes, uint64_t size) {
  text_copy_t *copy = malloc(sizeof *copy + size + 1);
  if (!copy) return NULL;
  memcpy(copy->text, bytes, size);
  copy->text[size] = 0;
  copy->next = *list;
  *list = copy;
  return copy->text;
}

static inline void texts_free(text_copy_t **list) {
  while (*list) {
    text_copy_t *next = (*list)->next;
    free(*list);
    *list = next;
  }
}

#endif
