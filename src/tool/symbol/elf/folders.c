/* SPDX-License-Identifier: MIT */
#include "symbol/elf/folders.h"

#include <dirent.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

enum { FILES_MAX = 65536, ID_MAX = 64 };

typedef struct elf_member {
  char *path;
  uint8_t id[ID_MAX];
  size_t id_size;
} elf_member_t;

typedef struct elf_folder {
  char *path;
  ARRAY(elf_member_t) files;
} elf_folder_t;

struct elf_folders {
  ARRAY(elf_folder_t) folders;
};

int elf_open_regular(const char *path) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

/* The size of the build-id of the file PATH, which is copied to ID; 0: it has none. */
static size_t build_id_of(const char *path, uint8_t id[ID_MAX]) {
  const void *own;
  int fd = elf_open_regular(path);
  if (fd < 0) return 0;
  elf_version(EV_CURRENT);
  Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
  ssize_t size = elf && elf_kind(elf) == ELF_K_ELF ? dwelf_elf_gnu_build_id(elf, &own) : 0;
  if (size < 0 || size > ID_MAX) size = 0;
  if (size) memcpy(id, own, (size_t)size);
  if (elf) elf_end(elf);
  close(fd);
  return (size_t)size;
}

/* False: out of memory. */
static bool add_file(elf_folder_t *folder, const char *name) {
  elf_member_t member = {0};
  char path[PATH_MAX];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder->path, name) >= sizeof path) return true;
  member.id_size = build_id_of(path, member.id);
  if (!member.id_size) return true;
  member.path = strdup(path);
  elf_member_t *item = member.path ? ARRAY_ADD(folder->files) : NULL;
  if (item)
    *item = member;
  else
    free(member.path);
  return item != NULL;
}

static void read_folder(elf_folder_t *folder) {
  DIR *dir = opendir(folder->path);
  struct dirent *entry;
  for (int i = 0; dir && i < FILES_MAX && (entry = readdir(dir)); i++)
    if (entry->d_name[0] != '.' && !add_file(folder, entry->d_name)) break;
  if (dir) closedir(dir);
}

/* NULL: out of memory. */
static const elf_folder_t *folder_of(elf_folders_t *f, const char *path) {
  for (size_t i = 0; i < f->folders.count; i++)
    if (!strcmp(f->folders.items[i].path, path)) return &f->folders.items[i];
  char *copy = strdup(path);
  elf_folder_t *folder = copy ? ARRAY_ADD(f->folders) : NULL;
  if (!folder) {
    free(copy);
    return NULL;
  }
  *folder = (elf_folder_t){.path = copy};
  read_folder(folder);
  return folder;
}

const char *elf_folders_find(elf_folders_t **folders, const char *path, const uint8_t *id,
                             size_t size, size_t *place) {
  if (!*folders) *folders = calloc(1, sizeof **folders);
  const elf_folder_t *folder = *folders && size ? folder_of(*folders, path) : NULL;
  while (folder && *place < folder->files.count) {
    const elf_member_t *file = &folder->files.items[(*place)++];
    if (file->id_size == size && !memcmp(file->id, id, size)) return file->path;
  }
  return NULL;
}

void elf_folders_free(elf_folders_t *f) {
  for (size_t i = 0; f && i < f->folders.count; i++) {
    elf_folder_t *folder = &f->folders.items[i];
    for (size_t k = 0; k < folder->files.count; k++)
      free(folder->files.items[k].path);
    free(folder->files.items);
    free(folder->path);
  }
  if (f) free(f->folders.items);
  free(f);
}
