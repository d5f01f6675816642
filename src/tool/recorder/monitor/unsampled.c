/* SPDX-License-Identifier: MIT
 *
 * A Go program is known by the note its linker writes: owner "Go", type 4, the build's id
 * (cmd/link, ELF_NOTE_GOBUILDID_TAG). A ring is known by its descriptor.
 */
#include "recorder/monitor/unsampled.h"

#include <dirent.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GO_BUILD_ID 4

static bool has_go_note(Elf_Data *data) {
  GElf_Nhdr note;
  size_t name, description, at = 0, next;
  while (data && (next = gelf_getnote(data, at, &note, &name, &description)) > 0) {
    const char *owner = (const char *)data->d_buf + name;
    if (note.n_type == GO_BUILD_ID && note.n_namesz == 4 && !memcmp(owner, "Go\0", 4)) return true;
    at = next;
  }
  return false;
}

static bool is_go(Elf *elf) {
  size_t count = 0;
  if (!elf || elf_getphdrnum(elf, &count) != 0) return false;
  for (size_t i = 0; i < count; i++) {
    GElf_Phdr header;
    if (!gelf_getphdr(elf, (int)i, &header) || header.p_type != PT_NOTE) continue;
    if (has_go_note(elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz,
                                         header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR)))
      return true;
  }
  return false;
}

static bool runs_go(pid_t pid) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  elf_version(EV_CURRENT);
  Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
  bool go = is_go(elf);
  elf_end(elf);
  close(fd);
  return go;
}

static bool has_ring(pid_t pid) {
  char path[64], link[64];
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *folder = opendir(path);
  struct dirent *entry;
  bool found = false;
  while (folder && !found && (entry = readdir(folder))) {
    ssize_t n = readlinkat(dirfd(folder), entry->d_name, link, sizeof link - 1);
    link[n > 0 ? n : 0] = 0;
    found = !strcmp(link, "anon_inode:[io_uring]");
  }
  if (folder) closedir(folder);
  return found;
}

unsigned unsampled_detect(pid_t pid) {
  return (runs_go(pid) ? UNSAMPLED_GO : 0) | (has_ring(pid) ? UNSAMPLED_IO_URING : 0);
}

const char *unsampled_text(unsigned one) {
  switch (one) {
  case UNSAMPLED_GO:
    return "a Go program: its goroutines wait by system calls of the Go runtime's own, so their "
           "stalls are not seen";
  case UNSAMPLED_IO_URING:
    return "the program uses io_uring: a loop that waits in the ring itself, and not in epoll or "
           "poll, is not seen";
  default:
    return "more than 256 threads wait as event loops do: the stalls of those that came later are "
           "not seen";
  }
}
