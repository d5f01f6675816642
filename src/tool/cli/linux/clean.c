/* SPDX-License-Identifier: MIT
 *
 * sonde clean: lists or removes recordings whose program and recorder ended without finishing them.
 *
 * A recording is orphaned if its header is unfinished, its program and its recorder have ended, and
 * no visible process has the file open (recorder/liveness.h). If its processes have ids of another
 * namespace, it must also not have changed for a minute. Finished recordings are never removed.
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
#include "recorder/liveness.h"

enum { KEY_REMOVE = CLI_LONG_ONLY };

static const cli_option_t options[] = {{KEY_REMOVE, "remove", NULL, "remove the listed files"},
                                       {0}};

static const cli_usage_t usage = {
    .verb = "clean",
    .arguments = "[FOLDER…]",
    .about = "Lists unfinished recordings in FOLDER (default: the current one) whose processes\n"
             "have ended. 'sonde report' can still read them. Finished recordings and those of\n"
             "running processes are never listed. A zombie counts as ended. A recording of\n"
             "another container is listed when it has not changed for a minute.\n"
             "'sonde record' without -o removes those of its command that are a day old.",
    .options = options,
    .examples = {{"sonde clean", "list orphaned recordings in this folder"},
                 {"sonde clean --remove /var/tmp", "delete them in /var/tmp"}}};

typedef struct tally {
  uint64_t files, bytes, living, failed;
} tally_t;

/* ---- files -------------------------------------------------------------------------------- */

/* NAME.PID.part: a file that sonde pack is writing. */
static orphan_verdict_t judge_part(const char *name, int fd, const struct stat *file) {
  char magic[8];
  size_t n = strlen(name) - strlen(".part"), digits = 0;
  while (n > digits && isdigit((unsigned char)name[n - 1 - digits]))
    digits++;
  bool ours = digits && n > digits && name[n - digits - 1] == '.' &&
              pread(fd, magic, sizeof magic, 0) == sizeof magic &&
              !memcmp(magic, RECORD_MAGIC, sizeof magic);
  if (!ours) return ORPHAN_NOT_OURS;
  uint32_t pid = (uint32_t)strtoul(name + n - digits, NULL, 10);
  return liveness_is_recent(file) || liveness_of_part(pid, file) ? ORPHAN_LIVING : ORPHAN_YES;
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n > m && !strcmp(text + n - m, end);
}

static orphan_verdict_t judge(int folder, const char *name, struct stat *file) {
  bool part = ends_with(name, ".part");
  if (!part && !ends_with(name, ".sonde")) return ORPHAN_NOT_OURS;
  int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  if (fd < 0) return ORPHAN_NOT_OURS;
  orphan_verdict_t verdict = ORPHAN_NOT_OURS;
  if (fstat(fd, file) == 0 && S_ISREG(file->st_mode))
    verdict = part ? judge_part(name, fd, file) : orphan_judge(fd, file);
  close(fd);
  return verdict;
}

static void handle(int folder, const char *path, const char *name, bool remove, tally_t *t) {
  struct stat file;
  orphan_verdict_t verdict = judge(folder, name, &file);
  t->living += verdict == ORPHAN_LIVING;
  if (verdict != ORPHAN_YES) return;
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
