/* SPDX-License-Identifier: MIT
 *
 * Section `leaks`: the blocks that nothing referenced when the program exited (record --leaks).
 */
#include "base/wrap.h"
#include "report/json.h"
#include "report/leaks/leaks.h"

static bool add_event(void *state, const record_event_t *e) { return leaks_read(state, e); }
static void end(void *state) { leaks_at_end_free(state); }

static bool has_data(const report_t *r, void *state) {
  const leaks_at_end_t *end = state;
  (void)r;
  return end->result != LEAKS_UNRECORDED;
}

static int print_text(const report_t *r, void *state, FILE *out) {
  const leaks_at_end_t *end = state;
  const leaks_t *l = &end->leaks;
  char a[24], b[24], parts[LEAKS_PARTS_MAX];
  fprintf(out, "\n%sleaks at exit%s\n", r->bold, r->plain);
  if (!r->brief || end->result != LEAKS_SEARCHED)
    return leaks_at_end_text(r, end, out);
  else
    wrap_format(out, (wrap_t){.indent = 13, .columns = r->columns},
                "  leaked     %s in %s block%s%s\n", report_bytes((int64_t)l->total.bytes, a),
                report_count(l->total.count, b), report_plural(l->total.count),
                leaks_parts(l->lost, l->indirect, l->in_cycles, parts));
  return 0;
}

static json_object *make_json(const report_t *r, void *state) {
  return leaks_at_end_json(r, state);
}

const report_section_t section_leaks = {.name = "leaks",
                                        .option = "--leaks",
                                        .state_bytes = sizeof(leaks_at_end_t),
                                        .event = add_event,
                                        .has_data = has_data,
                                        .text = print_text,
                                        .json = make_json,
                                        .end = end};
