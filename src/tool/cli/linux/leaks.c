/* SPDX-License-Identifier: MIT
 *
 * sonde leaks: what nothing points to in a running program, and what points to one block.
 *
 * The program's recorder has it copied (recorder/control_leaks.c); the recording says which blocks
 * are live at that moment; the copy searches itself and answers (record/leaks.h).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "cli/cli.h"
#include "recorder/control.h"
#include "cli/common/recording.h"
#include "cli/verbs.h"
#include "os/os.h"
#include "report/json.h"
#include "report/leaks/leaks.h"
#include "sonde/status.h"

#define LOOK_NS UINT64_C(100000000)

enum { KEY_JSON = CLI_LONG_ONLY, KEY_TOP, KEY_MAX };

static const cli_option_t options[] = {
    {KEY_TOP, "top", "N", "how many stacks are listed (10)"},
    {KEY_MAX, "max", "SIZE", "exit 1 when more than SIZE is lost: 0, 64K, 1M"},
    {KEY_JSON, "json", NULL, "as JSON"},
    {0}};

static const cli_usage_t usage = {
    .verb = "leaks",
    .arguments = "PID [ADDRESS]",
    .about = "Tells which blocks of the running program PID nothing points to any more, by the\n"
             "stack that allocated them; or what points to the block at ADDRESS. The program runs\n"
             "under 'sonde record --malloc=live' (or all) and is paused only while it is copied;\n"
             "the copy is searched. Needs no ptrace.",
    .options = options,
    .examples = {{"sonde leaks 1234", "what is lost"},
                 {"sonde leaks 1234 0x7f12a0001230", "what still points to this block"},
                 {"sonde leaks 1234 --max 0", "exit 1 when anything is lost"}}};

typedef struct look {
  pid_t pid, recorder;
  int exchange_fd, recording_fd; /* as the recorder's */
  uint64_t address;              /* 0: what is lost */
  bool json, limited;
  uint64_t max_bytes;
  report_t report;
  leaks_t leaks;
} look_t;

/* ---- asking ------------------------------------------------------------------------------- */

static int ask(look_t *l) {
  char *answer = NULL;
  bool failed = false;
  int status = control_request(l->pid, "leaks=copy", &answer, &failed);
  if (status < 0) return control_print_error(l->pid, status);
  int read = 0;
  if (failed)
    (void)message_fail("%s", answer);
  else if ((read = sscanf(answer, "recorder %d exchange %d recording %d", &l->recorder,
                          &l->exchange_fd, &l->recording_fd)) != 3)
    (void)message_fail("the recorder of process %d is of another version", (int)l->pid);
  free(answer);
  return failed || read != 3 ? CLI_FAILED : CLI_DONE;
}

static void tell_done(const look_t *l) {
  char *answer = NULL;
  bool failed;
  if (control_request(l->pid, "leaks=end", &answer, &failed) == 0) free(answer);
}

static leaks_exchange_t *map_exchange(const look_t *l, uint64_t *size) {
  char path[64];
  struct stat s;
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)l->recorder, l->exchange_fd);
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  void *map = MAP_FAILED;
  *size = 0;
  if (fstat(fd, &s) == 0 && (uint64_t)s.st_size >= sizeof(leaks_exchange_t)) {
    map = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *size = (uint64_t)s.st_size;
  }
  close(fd);
  if (map == MAP_FAILED) return NULL;
  leaks_exchange_t *x = map;
  if (x->magic == LEAKS_MAGIC && x->size <= *size && x->size >= sizeof *x) {
    uint64_t whole = *size;
    *size = x->size;
    if (whole > *size) munmap((uint8_t *)map + ALIGN_UP(*size, UINT64_C(4096)), whole - *size);
    return x;
  }
  munmap(map, *size);
  return NULL;
}

/* ---- the copy's answer -------------------------------------------------------------------- */

static bool has_ended(uint32_t pid) {
  char path[40], text[512];
  snprintf(path, sizeof path, "/proc/%" PRIu32 "/stat", pid);
  ssize_t n = os_read_file(path, text, sizeof text);
  const char *close = n > 0 ? strrchr(text, ')') : NULL;
  return !close || close[1] != ' ' || close[2] == 'Z' || close[2] == 'X';
}

static int search(look_t *l) {
  leaks_exchange_t *x = l->leaks.exchange;
  terminal_progress_t progress;
  terminal_progress_start(&progress, "searching the copy", 0);
  x->wanted = l->address;
  store_release(&x->state, (uint32_t)LEAKS_READY);
  (void)os_futex_wake_shared(&x->state, INT32_MAX);
  uint32_t state;
  bool ended = false;
  while ((state = load_acquire(&x->state)) == LEAKS_READY && !ended) {
    (void)os_futex_wait_shared(&x->state, LEAKS_READY, LOOK_NS);
    ended = has_ended(x->copy_pid);
    terminal_progress_step(&progress, 0);
  }
  terminal_progress_end(&progress);
  state = load_acquire(&x->state);
  if (state == LEAKS_DONE) return CLI_DONE;
  if (state == LEAKS_FAILED)
    return message_fail("the copy could not be searched: %s", sonde_strerror(x->error));
  return message_fail("the copy of the process has ended before it was searched");
}

static int collect(look_t *l) {
  replay_t replay;
  const replay_options_t window = {.to_ns = reader_ns(l->report.reader, l->leaks.exchange->time)};
  if (replay_run(&replay, l->report.reader, &window) < 0) return message_fail("there is no memory");
  int status = leaks_log_is_complete(&replay) ? leaks_collect(&l->leaks, &replay) : SONDE_ENOTFOUND;
  l->leaks.exchange->late = leaks_has_unrecorded(&replay);
  replay_free(&replay);
  if (status == SONDE_ENOTFOUND)
    return message_fail(
        "the recording has lost events, and so what is live: 'sonde ctl %d malloc=live' "
        "begins anew",
        (int)l->pid);
  if (status == 0) status = leaks_send(&l->leaks);
  if (status == SONDE_EFULL)
    return message_fail("%" PRIu64 " blocks are more than the program's address space has room for",
                        l->leaks.count);
  return status < 0 ? message_fail("there is no memory") : CLI_DONE;
}

/* ---- printing ----------------------------------------------------------------------------- */

static int print(look_t *l) {
  const leaks_block_t *block = l->address ? leaks_find(&l->leaks, l->address) : NULL;
  report_t *r = &l->report;
  if (l->address && !block)
    return message_fail("no live block holds 0x%" PRIx64 "; 'sonde history' tells what did",
                        l->address);
  if (l->json) {
    json_object *o =
        block ? leaks_block_json(r, &l->leaks, l->pid, block) : leaks_json(r, &l->leaks, l->pid);
    printf("%s\n", json_object_to_json_string_ext(o, JSON_STYLE));
    json_object_put(o);
  } else if (block) {
    leaks_block_text(r, &l->leaks, l->pid, block, stdout);
  } else {
    const char *program = reader_argument(r->reader, 0);
    printf("%s%s%s, process %d, %.3f s after the start\n", r->bold, program ? program : "?",
           r->plain, (int)l->pid, (double)reader_ns(r->reader, l->leaks.exchange->time) / 1e9);
    leaks_text(r, &l->leaks, stdout);
  }
  bool over = l->limited && l->leaks.lost.bytes + l->leaks.indirect.bytes > l->max_bytes;
  return over ? CLI_FINDING : CLI_DONE;
}

static int look(look_t *l) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)l->recorder, l->recording_fd);
  l->report.path = path;
  l->leaks.exchange = map_exchange(l, &l->leaks.size);
  if (!l->leaks.exchange)
    return message_fail("what the recorder set up cannot be opened: %s", path);
  if (!recording_open_report(&l->report)) return CLI_FAILED;
  int status = collect(l);
  if (status == CLI_DONE) status = search(l);
  if (status == CLI_DONE) {
    l->report.names = frame_names_new(l->report.reader);
    if (!l->report.names || leaks_receive(&l->leaks) < 0)
      status = message_fail("the copy's answer makes no sense, or there is no memory");
    else
      status = print(l);
    frame_names_free(l->report.names);
  }
  leaks_free(&l->leaks);
  reader_close(l->report.reader);
  munmap(l->leaks.exchange, l->leaks.size);
  return status;
}

int verb_leaks(int argc, char **argv) {
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  look_t l = {0};
  long pid, top = 10;
  int key;
  while ((key = cli_next(&parser)) > 0)
    switch (key) {
    case KEY_JSON: l.json = true; break;
    case KEY_TOP:
      if (!parse_number(parser.value, 1, 100000000, &top))
        return cli_wrong_use(&usage, "--top takes a number from 1 up");
      break;
    case KEY_MAX:
      l.limited = true;
      if (strcmp(parser.value, "0") && !parse_size(parser.value, &l.max_bytes))
        return cli_wrong_use(&usage, "--max takes a size such as 64K, or 0");
      break;
    }
  if (key < 0) return parser.status;
  if (parser.rest_count < 1 || parser.rest_count > 2)
    return cli_wrong_use(&usage, "takes a process, and the address of a block");
  if (!parse_number(parser.rest[0], 1, INT32_MAX, &pid))
    return cli_wrong_use(&usage, "'%s' is not a process id", parser.rest[0]);
  if (parser.rest_count == 2 && (!parse_address(parser.rest[1], &l.address) || !l.address))
    return cli_wrong_use(&usage, "'%s' is not an address", parser.rest[1]);
  l.pid = (pid_t)pid;
  l.report.top = (uint32_t)top;
  int status = ask(&l);
  if (status != CLI_DONE) return status;
  status = look(&l);
  tell_done(&l);
  return status;
}
