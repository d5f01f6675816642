/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "recorder/preload_check.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The kernel follows this many interpreters of scripts (fs/exec.c). */
enum { SCRIPT_DEPTH = 4 };

static bool search(const char *command, char *out, size_t size) {
  const char *path = getenv("PATH");
  for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; *p;) {
    size_t n = strcspn(p, ":");
    int written = snprintf(out, size, "%.*s%s%s", (int)n, p, n ? "/" : "./", command);
    struct stat s;
    if (written > 0 && written < (int)size && stat(out, &s) == 0 && S_ISREG(s.st_mode) &&
        access(out, X_OK) == 0)
      return true;
    p += n;
    if (*p == ':') p++;
  }
  return false;
}

/* A recorder asks several times for one command, before and after it forks. */
bool preload_find(const char *command, char *out, size_t size) {
  static char last[NAME_MAX + 1], found[PATH_MAX];
  if (strchr(command, '/')) return snprintf(out, size, "%s", command) < (int)size;
  if (!*command || strlen(command) > NAME_MAX) return false;
  if (strcmp(last, command)) {
    *last = 0;
    if (!search(command, found, sizeof found)) return false;
    strcpy(last, command);
  }
  return snprintf(out, size, "%s", found) < (int)size;
}

static preload_verdict_t check_elf(int fd, const Elf64_Ehdr *h) {
  if (h->e_ident[EI_CLASS] != ELFCLASS64) return PRELOAD_32_BIT;
  for (unsigned i = 0; i < h->e_phnum; i++) {
    Elf64_Phdr p;
    if (pread(fd, &p, sizeof p, (off_t)(h->e_phoff + (uint64_t)i * h->e_phentsize)) != sizeof p)
      return PRELOAD_WORKS;
    if (p.p_type == PT_INTERP) return PRELOAD_WORKS;
  }
  return PRELOAD_STATIC;
}

/* The interpreter of a script that begins with LINE. */
static bool interpreter(char *line, char *out, size_t size) {
  char *p = line + 2;
  p += strspn(p, " \t");
  p[strcspn(p, " \t\n")] = 0;
  return *p && snprintf(out, size, "%s", p) < (int)size;
}

/* Root has all capabilities anyway. */
static bool gains_rights(const char *path, uid_t user, gid_t group) {
  struct stat s;
  if (stat(path, &s) < 0) return false;
  return ((s.st_mode & S_ISUID) && s.st_uid != user) ||
         ((s.st_mode & S_ISGID) && s.st_gid != group) ||
         (user != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

preload_verdict_t preload_check_file(const char *root, const char *file, uid_t user, gid_t group) {
  char path[PATH_MAX], script[256];
  for (int depth = 0; depth < SCRIPT_DEPTH; depth++) {
    union {
      Elf64_Ehdr elf;
      char text[256];
    } head = {0};
    if (snprintf(path, sizeof path, "%s%s", root, file) >= (int)sizeof path) return PRELOAD_WORKS;
    if (gains_rights(path, user, group)) return PRELOAD_GAINS_RIGHTS;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return PRELOAD_WORKS;
    ssize_t n = read(fd, &head, sizeof head - 1);
    preload_verdict_t verdict = PRELOAD_WORKS;
    bool is_script = n > 2 && !memcmp(head.text, "#!", 2);
    if (n >= (ssize_t)sizeof head.elf && !memcmp(head.text, ELFMAG, SELFMAG))
      verdict = check_elf(fd, &head.elf);
    close(fd);
    if (!is_script || !interpreter(head.text, script, sizeof script)) return verdict;
    file = script;
  }
  return PRELOAD_WORKS;
}

bool preload_check(const char *command, char *refusal, size_t size) {
  static const char *const refusals[] = {
      [PRELOAD_32_BIT] = "is a 32-bit program; sonde's agent is built for 64 bits",
      [PRELOAD_GAINS_RIGHTS] = "is setuid or setgid, or has capabilities, so the loader does not "
                               "preload libraries; record it as the user it runs as"};
  char path[PATH_MAX];
  if (!preload_find(command, path, sizeof path)) return true;
  preload_verdict_t verdict = preload_check_file("", path, geteuid(), getegid());
  const char *why = refusals[verdict];
  if (why) snprintf(refusal, size, "%s", why);
  return !why;
}

bool preload_check_is_static(const char *command) {
  char path[PATH_MAX];
  return preload_find(command, path, sizeof path) &&
         preload_check_file("", path, geteuid(), getegid()) == PRELOAD_STATIC;
}

/* Whether NOTES has the build id of Go's linker: owner "Go", type 4 (cmd/link,
 * ELF_NOTE_GOBUILDID_TAG). */
static bool notes_are_go(const char *notes, size_t size) {
  for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= size;) {
    Elf64_Nhdr note;
    memcpy(&note, notes + at, sizeof note);
    at += sizeof note;
    size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
    size_t content = ((size_t)note.n_descsz + 3) & ~(size_t)3;
    if (note.n_type == 4 && note.n_namesz == 4 && at + 4 <= size && !memcmp(notes + at, "Go\0", 4))
      return true;
    if (name > size - at || content > size - at - name) return false;
    at += name + content;
  }
  return false;
}

static bool segment_is_go(int fd, const Elf64_Phdr *p) {
  char notes[4096];
  if (p->p_type != PT_NOTE) return false;
  size_t size = p->p_filesz < sizeof notes ? (size_t)p->p_filesz : sizeof notes;
  ssize_t n = pread(fd, notes, size, (off_t)p->p_offset);
  return n > 0 && notes_are_go(notes, (size_t)n);
}

bool preload_check_path_is_go(const char *path) {
  Elf64_Ehdr h;
  bool is = false;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return false;
  if (read(fd, &h, sizeof h) != sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG)) h.e_phnum = 0;
  for (unsigned i = 0; i < h.e_phnum && !is; i++) {
    Elf64_Phdr p;
    if (pread(fd, &p, sizeof p, (off_t)(h.e_phoff + (uint64_t)i * h.e_phentsize)) != sizeof p)
      break;
    is = segment_is_go(fd, &p);
  }
  close(fd);
  return is;
}

bool preload_check_is_go(const char *command) {
  char path[PATH_MAX];
  return preload_find(command, path, sizeof path) && preload_check_path_is_go(path);
}

bool preload_check_process_is_go(pid_t pid) {
  char path[48];
  snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
  return preload_check_path_is_go(path);
}
