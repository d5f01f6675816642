/* SPDX-License-Identifier: MIT */
#include "symbol/places.h"

#include <stdio.h>

bool symbol_place(const symbol_places_t *places, const symbol_source_t *source, size_t number,
                  char path[PATH_MAX], bool *is_foreign) {
  size_t sysroots = 0;
  /* Without a build-id, nothing tells whether a foreign file is the right one. */
  bool can_match = source->build_id_size && source->path && source->path[0] == '/';
  while (can_match && places->sysroots && places->sysroots[sysroots])
    sysroots++;
  const char *own = source->open_path ? source->open_path : source->path;
  *is_foreign = number < sysroots;
  path[0] = 0;
  if (number > sysroots || !own) return false;
  int size = *is_foreign ? snprintf(path, PATH_MAX, "%s%s", places->sysroots[number], source->path)
                         : snprintf(path, PATH_MAX, "%s", own);
  if (size < 0 || size >= PATH_MAX) path[0] = 0; /* no such file */
  return true;
}
