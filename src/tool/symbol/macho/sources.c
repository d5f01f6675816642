/* SPDX-License-Identifier: MIT
 *
 * Finds the files of a Mach-O module. A dSYM belongs to an image only if their UUIDs are equal,
 * whatever its name. See sources.h.
 */
#include "symbol/macho/sources.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_BUNDLE  "Contents/Resources/DWARF"
#define FILES_MAX  4096 /* tried in one folder */
#define SUFFIX     ".dSYM"
#define LENGTH(s)  (sizeof(s) - 1)
#define UUID_BYTES 16

typedef struct dsym_search {
  macho_file_t *file; /* that is searched */
  bool is_image;      /* FILE need not have DWARF */
  macho_choice_t choice;
} dsym_search_t;

static bool try_file(dsym_search_t *search, const char *path) {
  macho_file_t *file = search->file;
  if (macho_file_open(file, path, &search->choice) != SYMBOL_NAMED) return false;
  if (file->debug_size || search->is_image) return true;
  macho_file_close(file);
  return false;
}

/* Tries the files of FOLDER; with BUNDLES the files in its NAME.dSYM bundles as well. */
static bool try_folder(dsym_search_t *search, const char *path, bool bundles) {
  DIR *folder = opendir(path);
  struct dirent *entry;
  bool found = false;
  for (int i = 0; folder && !found && i < FILES_MAX && (entry = readdir(folder)); i++) {
    char inner[PATH_MAX];
    size_t length = strlen(entry->d_name);
    bool is_bundle =
        length > LENGTH(SUFFIX) && !strcmp(entry->d_name + length - LENGTH(SUFFIX), SUFFIX);
    if (entry->d_name[0] == '.' ||
        (size_t)snprintf(inner, sizeof inner, is_bundle ? "%s/%s/" IN_BUNDLE : "%s/%s", path,
                         entry->d_name) >= sizeof inner)
      continue;
    if (!is_bundle)
      found = try_file(search, inner);
    else if (bundles)
      found = try_folder(search, inner, false);
  }
  if (folder) closedir(folder);
  return found;
}

static void find_dsym(macho_sources_t *sources, const char *path, const uint8_t *uuid,
                      const char *const *dirs) {
  char bundle[PATH_MAX];
  dsym_search_t search = {.file = &sources->debug,
                          .choice = {.uuid = uuid, .uuid_size = uuid ? UUID_BYTES : 0}};
  if (!uuid) return; /* no dSYM can be matched */
  if (path &&
      (size_t)snprintf(bundle, sizeof bundle, "%s" SUFFIX "/" IN_BUNDLE, path) < sizeof bundle &&
      try_folder(&search, bundle, false))
    return;
  for (; dirs && *dirs; dirs++) {
    if ((size_t)snprintf(bundle, sizeof bundle, "%s/" IN_BUNDLE, *dirs) < sizeof bundle &&
        try_folder(&search, bundle, false)) /* DIRS names the bundle itself */
      return;
    if (try_folder(&search, *dirs, true)) return;
  }
}

/* A missing image, in folders of the user. */
static void find_image(macho_sources_t *sources, const uint8_t *uuid, const char *const *dirs) {
  dsym_search_t search = {.file = &sources->image,
                          .is_image = true,
                          .choice = {.uuid = uuid, .uuid_size = uuid ? UUID_BYTES : 0}};
  while (uuid && dirs && *dirs && !try_folder(&search, *dirs, false))
    dirs++;
}

/* Opens the image of SOURCE at the first of its places that has one. */
static symbol_reason_t open_image(macho_sources_t *sources, const symbol_source_t *source,
                                  const symbol_places_t *places, const macho_choice_t *choice) {
  char path[PATH_MAX];
  bool is_foreign;
  symbol_reason_t reason = SYMBOL_NO_FILE;
  for (size_t i = 0; symbol_place(places, source, i, path, &is_foreign); i++) {
    symbol_reason_t found = macho_file_open(&sources->image, path, choice);
    if (found == SYMBOL_NAMED) return found;
    if (found != SYMBOL_NO_FILE) reason = found;
  }
  return reason;
}

macho_sources_t *macho_sources_open(const symbol_source_t *source, const symbol_places_t *places,
                                    symbol_reason_t *reason) {
  macho_choice_t choice = {.uuid = source->build_id,
                           .uuid_size = source->build_id_size,
                           .machine = source->machine,
                           .is_arm64e = source->is_arm64e};
  macho_sources_t *sources = calloc(1, sizeof *sources);
  *reason = SYMBOL_NO_FILE;
  if (!sources) return NULL;
  if (!source->bytes) *reason = open_image(sources, source, places, &choice);
  const image_t *image = &sources->image.image;
  const uint8_t *uuid = image->build_id_size == UUID_BYTES    ? image->build_id
                        : source->build_id_size == UUID_BYTES ? source->build_id
                                                              : NULL;
  bool wanted = sources->image.map ? !sources->image.debug_size : *reason != SYMBOL_BAD_FILE;
  const char *path = source->open_path ? source->open_path : source->path;
  if (sources->image.map && sources->image.path) path = sources->image.path;
  if (wanted && !source->bytes) find_dsym(sources, path, uuid, places->debug_dirs);
  if (!sources->image.map && wanted && !source->bytes)
    find_image(sources, uuid, places->debug_dirs);
  if (sources->image.map || sources->debug.map) {
    *reason = SYMBOL_NAMED;
    return sources;
  }
  free(sources);
  return NULL;
}

void macho_sources_close(macho_sources_t *sources) {
  if (!sources) return;
  macho_file_close(&sources->image);
  macho_file_close(&sources->debug);
  free(sources);
}

const image_t *macho_sources_image(const macho_sources_t *sources) {
  return sources->image.map ? &sources->image.image : &sources->debug.image;
}

const macho_file_t *macho_sources_debug(const macho_sources_t *sources) {
  if (sources->image.debug_size) return &sources->image;
  return sources->debug.debug_size ? &sources->debug : NULL;
}
