/* SPDX-License-Identifier: MIT
 *
 * The requester's part of a search for leaks when the program exited: the blocks are those that
 * were live at the time of the copy, by the complete recording.
 */
#include <inttypes.h>

#include "analysis/malloc/leaks.h"
#include "base/message.h"
#include "cli/common/recording.h"
#include "cli/linux/leaks_client.h"
#include "report/report.h"
#include "sonde/status.h"

static int add_record(void *context, extended_subtype_t subtype, const uint64_t *numbers,
                      size_t count) {
  return recording_add_numbers(context, subtype, numbers, count);
}

static bool collect(leaks_at_end_t *end, reader_t *reader) {
  replay_t replay;
  leaks_exchange_t *x = end->leaks.exchange;
  const replay_options_t window = {.to_ns = end->time_ns};
  if (replay_run(&replay, reader, &window) < 0) return false;
  x->late = leaks_has_unrecorded(&replay);
  bool good = leaks_log_is_complete(&replay);
  if (!good) end->result = LEAKS_NO_BLOCKS;
  good = good && leaks_collect(&end->leaks, &replay) == 0 && leaks_send(&end->leaks) == 0;
  replay_free(&replay);
  return good;
}

static void search(leaks_at_end_t *end, const char *path) {
  reader_t *reader = recording_open(path);
  if (!reader) return;
  end->time_ns = reader_ns(reader, end->leaks.exchange->time);
  if (collect(end, reader)) {
    if (!leaks_client_search(end->leaks.exchange, 0))
      end->error = end->leaks.exchange->error;
    else if (leaks_receive(&end->leaks) == 0)
      end->result = LEAKS_SEARCHED;
  }
  reader_close(reader);
}

static void note(const leaks_at_end_t *end, const char *path) {
  char a[24], b[24];
  if (end->result == LEAKS_NO_EXIT)
    message_note("leaks were not searched for: the command did not exit by itself");
  else if (end->result != LEAKS_SEARCHED)
    message_note("leaks were not searched for: see 'sonde leaks %s'", path);
  else if (!end->leaks.lost.count)
    message_note("no block was leaked");
  else
    message_note("%s in %s block%s leaked; 'sonde leaks %s' lists them",
                 report_bytes((int64_t)end->leaks.lost.bytes, a),
                 report_count(end->leaks.lost.count, b), end->leaks.lost.count == 1 ? "" : "s",
                 path);
}

void exit_search(recording_t *recording, const char *path, leaks_exchange_t *exchange,
                 uint64_t size, int32_t error) {
  leaks_at_end_t end = {.result = exchange || error ? LEAKS_NO_COPY : LEAKS_NO_EXIT,
                        .error = error,
                        .leaks = {.exchange = exchange, .size = size}};
  if (exchange) search(&end, path);
  (void)leaks_write(&end, add_record, recording);
  note(&end, path);
  leaks_free(&end.leaks);
}
