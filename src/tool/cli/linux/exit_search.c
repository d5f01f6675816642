/* SPDX-License-Identifier: MIT
 *
 * The requester's part of a search for leaks when the program exited, or when the recording of a
 * running process ended: the blocks are those that were live at the time of the copy, by the
 * complete recording.
 */
#include <inttypes.h>

#include "analysis/malloc/leaks.h"
#include "base/message.h"
#include "cli/common/recording.h"
#include "cli/linux/leaks_client.h"
#include "report/leaks/leaks.h"
#include "report/report.h"
#include "sonde/status.h"

static int add_record(void *context, extended_subtype_t subtype, const uint64_t *numbers,
                      size_t count) {
  return recording_add_numbers(context, subtype, numbers, count);
}

/* Sends the live blocks to the copy. 0, or a negative SONDE_E…; SONDE_ENOTFOUND: they are unknown.
 */
static int collect(leaks_at_end_t *end, reader_t *reader) {
  replay_t replay;
  leaks_exchange_t *x = end->leaks.exchange;
  const replay_options_t window = {.to_ns = end->time_ns};
  int status = replay_run(&replay, reader, &window);
  if (status < 0) return status;
  x->late = leaks_has_unrecorded(&replay);
  status = leaks_log_is_complete(&replay) ? leaks_collect(&end->leaks, &replay) : SONDE_ENOTFOUND;
  if (status == 0) status = leaks_send(&end->leaks);
  replay_free(&replay);
  return status;
}

static void search(leaks_at_end_t *end, const char *path) {
  reader_t *reader = recording_open(path);
  if (!reader) return;
  end->time_ns = reader_ns(reader, end->leaks.exchange->time);
  int status = collect(end, reader);
  if (status == SONDE_ENOTFOUND)
    end->result = LEAKS_NO_BLOCKS;
  else if (status < 0)
    end->error = status;
  else if (!leaks_client_search(end->leaks.exchange, 0))
    end->error = end->leaks.exchange->error;
  else if ((end->error = leaks_receive(&end->leaks)) == 0)
    end->result = LEAKS_SEARCHED;
  reader_close(reader);
}

/* IS_KEPT: the recording has the result. */
static void note(const leaks_at_end_t *end, const char *path, bool is_kept, bool is_command) {
  char a[24], b[24], parts[LEAKS_PARTS_MAX];
  const leaks_t *l = &end->leaks;
  if (!is_kept) message_note("the result of the search for leaks cannot be written to '%s'", path);
  if (end->result == LEAKS_NO_EXIT)
    message_note("leaks were not searched for: the %s", is_command
                                                            ? "command did not exit by itself"
                                                            : "process ended before the recording");
  else if (end->result != LEAKS_SEARCHED && is_kept)
    message_note("leaks were not searched for: see 'sonde leaks %s'", path);
  else if (end->result != LEAKS_SEARCHED)
    message_note("leaks were not searched for");
  else if (!l->lost.count)
    message_note("no block was leaked");
  else
    message_note("%s in %s block%s leaked%s%s%s%s", report_bytes((int64_t)l->total.bytes, a),
                 report_count(l->total.count, b), report_plural(l->total.count),
                 leaks_parts(l->lost, l->indirect, l->in_cycles, parts),
                 is_kept ? "; 'sonde leaks " : "", is_kept ? path : "",
                 is_kept ? "' lists them" : "");
}

void exit_search(recording_t *recording, const char *path, leaks_exchange_t *exchange,
                 uint64_t size, int32_t error) {
  leaks_at_end_t end = {.result = exchange || error ? LEAKS_NO_COPY : LEAKS_NO_EXIT,
                        .error = error,
                        .leaks = {.exchange = exchange, .size = size}};
  if (exchange) search(&end, path);
  bool is_kept = leaks_write(&end, add_record, recording) >= 0;
  note(&end, path, is_kept, !load_relaxed(&recording->control->from_outside));
  leaks_free(&end.leaks);
}
