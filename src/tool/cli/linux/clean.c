/* SPDX-License-Identifier: MIT
 *
 * sonde clean: lists or removes recordings whose program and recorder ended without finishing them.
 *
 * A recording is orphaned if its header is unfinished, its program and its recorder have ended, no
 * visible process has the file open, and it was not modified for a minute. The last rule covers
 * programs that this process cannot see, for example in another container: a running recorder
 * updates the header every second. A process with a recorded pid counts only if it started before
 * the recording, or if its start time cannot be read; otherwise the pid was reused. Finished
 * recordings are never removed.
 *
 * FILE.PID.part, left by an interrupted pack, is orphaned if that process has ended.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/verbs.h"
#include "record/format.h"

enum { KEY_REMOVE = CLI_LONG_ONLY, QUIET_SECONDS = 60 };

static const cli_option_t options[] = {{KEY_REMOVE, "remove", NULL, "remove the listed files"},
                                       {0}};

static const cli_usage_t usage = {
    .verb = "clean",
    .arguments = "[FOLDER…]",
    .about = "Lists unfinished recordings in FOLDER (default: the current one) whose processes\n"
             "have ended. 'sonde report' can still read them. Finished recordings and those of\n"
             "running processes are never listed.",
    .options = options,
    .examples = {{"sonde clean", "list orphaned recordings in this folder"},
                 {"sonde clean --remove /var/tmp", "delete them in /var/tmp"}}};

typedef struct tally {
  uint64_t files, bytes, living, failed;
} tally_t;

/* ---- processes ---------------------------------------------------------------------------- */

/* The start time of PID in ns of CLOCK_BOOTTIME; 0: no such process; UINT64_MAX: unknown. */
static uint64_t start_of(uint32_t pid) {
  char path[64], text[1024];
  snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT || errno == ESRCH ? 0 : UINT64_MAX;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return n < 0 && errno != ESRCH ? UINT64_MAX : 0;
  text[n] = 0;
  const char *p = strrchr(text, ')'); /* the name may contain any character */
  for (int field = 2; p && field < 22; field++)
    p = strchr(p + 1, ' ');
  uint64_t ticks = p ? strtoull(p, NULL, 10) : 0;
  return ticks ? ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK)) : UINT64_MAX;
}

static uint64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Whether PID runs and had started when the recording began. */
static bool lives(uint32_t pid, const record_header_t *h) {
  uint64_t start = pid ? start_of(pid) : 0;
  if (!start || start == UINT64_MAX) return start != 0;
  uint64_t real_start = now_ns(CLOCK_REALTIME) - (now_ns(CLOCK_BOOTTIME) - start);
  return real_start <= h->start_realtime_ns + 2000000000u; /* the clock may have been set */
}

static bool has_open(const char *pid, const struct stat *file) {
  char folder[300], path[600];
  struct stat s;
  bool found = false;
  snprintf(folder, sizeof folder, "/proc/%s/fd", pid);
  DIR *d = opendir(folder);
  for (struct dirent *e; d && !found && (e = readdir(d));) {
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    found = isdigit((unsigned char)e->d_name[0]) && stat(path, &s) == 0 &&
            s.st_dev == file->st_dev && s.st_ino == file->st_ino;
  }
  if (d) closedir(d);
  return found;
}

/* Whether a process that we may examine has FILE open, other than this one. */
static bool is_open_somewhere(const struct stat *file) {
  char self[16];
  bool found = false;
  snprintf(self, sizeof self, "%d", (int)getpid());
  DIR *d = opendir("/proc");
  for (struct dirent *e; d && !found && (e = readdir(d));)
    found = isdigit((unsigned char)e->d_name[0]) && strcmp(e->d_name, self) &&
            has_open(e->d_name, file);
  if (d) closedir(d);
  return found;
}

/* ---- files -------------------------------------------------------------------------------- */

typedef enum verdict { NOT_OURS, FINISHED, LIVING, ORPHAN } verdict_t;

static verdict_t judge_recording(int fd, const struct stat *file) {
  record_header_t h;
  if (pread(fd, &h, sizeof h, 0) != sizeof h || memcmp(h.magic, RECORD_MAGIC, 8)) return NOT_OURS;
  if (h.state != RECORD_OPEN) return FINISHED;
  if (time(NULL) - file->st_mtime < QUIET_SECONDS || lives(h.pid, &h) ||
      lives(h.recorder_pid, &h) || is_open_somewhere(file))
    return LIVING;
  return ORPHAN;
}

/* NAME.PID.part: a file that sonde pack is writing. */
static verdict_t judge_part(const char *name, int fd, const struct stat *file) {
  char magic[8];
  size_t n = strlen(name) - strlen(".part"), digits = 0;
  while (n > digits && isdigit((unsigned char)name[n - 1 - digits]))
    digits++;
  bool ours = digits && n > digits && name[n - digits - 1] == '.' &&
              pread(fd, magic, sizeof magic, 0) == sizeof magic &&
              !memcmp(magic, RECORD_MAGIC, sizeof magic);
  if (!ours) return NOT_OURS;
  uint32_t pid = (uint32_t)strtoul(name + n - digits, NULL, 10);
  bool quiet = time(NULL) - file->st_mtime >= QUIET_SECONDS;
  return quiet && !start_of(pid) && !is_open_somewhere(file) ? ORPHAN : LIVING;
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n > m && !strcmp(text + n - m, end);
}

static verdict_t judge(int folder, const char *name, struct stat *file) {
  bool part = ends_with(name, ".part");
  if (!part && !ends_with(name, ".sonde")) return NOT_OURS;
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  if (fd < 0) return NOT_OURS;
  verdict_t verdict = NOT_OURS;
  if (fstat(fd, file) == 0 && S_ISREG(file->st_mode))
    verdict = part ? judge_part(name, fd, file) : judge_recording(fd, file);
  close(fd);
  return verdict;
}

static void handle(int folder, const char *path, const char *name, bool remove, tally_t *t) {
  struct stat file;
  verdict_t verdict = judge(folder, name, &file);
  t->living += verdict == LIVING;
  if (verdict != ORPHAN) return;
  t->files++;
  t->bytes += (uint64_t)file.st_size;
  printf("%s/%s  %" PRIu64 " bytes\n", path, name, (uint64_t)file.st_size);
  if (!remove || unlinkat(folder, name, 0) == 0) return;
  t->failed++;
  message_note("cannot remove '%s/%s': %s", path, name, strerror(errno));
}

static bool clean_folder(const char *path, bool remove, tally_t *t) {
  struct dirent **names;
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int count = folder < 0 ? -1 : scandir(path, &names, NULL, alphasort);
  if (count < 0) (void)message_fail("cannot read '%s': %s", path, strerror(errno));
  for (int i = 0; i < count; i++) {
    handle(folder, path, names[i]->d_name, remove, t);
    free(names[i]);
  }
  if (count >= 0) free(names);
  if (folder >= 0) close(folder);
  return count >= 0;
}

int verb_clean(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  bool remove = false, good = true;
  int key;
  while ((key = cli_next(&parser)) > 0)
    if (key == KEY_REMOVE) remove = true;
  if (key < 0) return parser.status;
  tally_t t = {0};
  if (!parser.rest_count) good = clean_folder(".", remove, &t);
  for (int i = 0; i < parser.rest_count; i++)
    good &= clean_folder(parser.rest[i], remove, &t);
  if (!good || t.failed) return CLI_FAILED;
  printf("%" PRIu64 " orphaned recording%s, %" PRIu64 " bytes%s; %" PRIu64
         " skipped that may still be written\n",
         t.files, t.files == 1 ? "" : "s", t.bytes,
         !t.files ? ""
         : remove ? ", removed"
                  : "; --remove removes them",
         t.living);
  return CLI_DONE;
}
