/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "top/top.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/message.h"
#include "base/terminal.h"
#include "os/os.h"
#include "recorder/defaults.h"
#include "top/budget.h"
#include "top/heap.h"
#include "top/run.h"
#include "top/sampler.h"
#include "top/screen.h"

/* The first frame shows rates of a shorter interval. */
#define FIRST_NS UINT64_C(300000000)

typedef struct top {
  const top_options_t *options;
  top_sampler_t *sampler;
  top_heap_reader_t heap;
  top_run_t run;
  top_model_t model;
  top_view_t view;
  top_lines_t lines;
  top_costs_t costs;
  uint64_t read_ns, next_ns, slice_ns, used_ns;
  sigset_t waiting;
} top_t;

static volatile sig_atomic_t ended_by;

static void on_signal(int number) { ended_by = number; }

/* Blocks the signals that end top, except while it waits: none is missed. */
static void catch_signals(sigset_t *waiting) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  sigset_t blocked;
  struct sigaction action = {.sa_handler = on_signal};
  sigemptyset(&blocked);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    sigaction(numbers[i], &action, NULL);
    sigaddset(&blocked, numbers[i]);
  }
  signal(SIGPIPE, SIG_IGN); /* a closed pipe ends top as an error of writing, after the command */
  sigprocmask(SIG_BLOCK, &blocked, waiting);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigdelset(waiting, numbers[i]);
}

/* ---- reading ------------------------------------------------------------------------------ */

static void note_end(top_t *t) {
  if (*t->model.ended) return;
  if (!t->run.recorder || !top_run_ended(&t->run, t->model.ended, sizeof t->model.ended))
    snprintf(t->model.ended, sizeof t->model.ended, "the program has ended");
}

/* The share of a CPU that top and the recorder used since the last reading. */
static void measure_own(top_t *t, uint64_t now_ns) {
  uint64_t used_ns = top_own_cpu_ns() + top_run_cpu_ns(&t->run);
  if (t->read_ns && now_ns > t->read_ns && used_ns > t->used_ns)
    t->model.own_cpu = (double)(used_ns - t->used_ns) / (double)(now_ns - t->read_ns);
  t->used_ns = used_ns;
  t->read_ns = now_ns;
}

static void read_all(top_t *t) {
  uint64_t now_ns = os_monotonic_ns(), before_ns = top_own_cpu_ns();
  if (now_ns - t->slice_ns >= 1000000000u) {
    top_functions_turn(&t->model.functions);
    t->slice_ns = now_ns;
  }
  measure_own(t, now_ns);
  top_sampler_step(t->sampler, &t->model);
  if (!top_sampler_read(t->sampler, &t->model)) {
    note_end(t);
    return;
  }
  if (t->view.is_stack) top_sampler_read_stack(t->sampler, &t->model);
  top_costs_add(&t->costs, top_own_cpu_ns() - before_ns);
  top_heap_read(&t->heap, t->sampler, &t->model, now_ns);
}

static uint64_t period(const top_t *t) {
  return top_period_ns(t->options->period_ns, top_costs_least(&t->costs), TOP_FRAME_SHARE);
}

/* ---- keys --------------------------------------------------------------------------------- */

static void switch_sensor(top_t *t, const char *name, const char *now, const char *on) {
  char command[64];
  snprintf(command, sizeof command, "%s=%s", name, strcmp(now, "off") == 0 ? on : "off");
  top_heap_command(&t->heap, command, t->view.note, sizeof t->view.note);
  if (!*t->view.note) snprintf(t->view.note, sizeof t->view.note, "%s", command);
}

static void obey(top_t *t, top_action_t action) {
  if (action == TOP_SWITCH_MALLOC)
    switch_sensor(t, "malloc", t->model.heap.malloc, DEFAULT_BLOCKS_TEXT);
  if (action == TOP_SWITCH_SAMPLE)
    switch_sensor(t, "sample", t->model.heap.sample, DEFAULT_HZ_TEXT);
  if (action == TOP_READ_STACK) {
    t->model.stack.tid = t->view.selected;
    t->model.stack.count = 0;
    t->model.stack.note[0] = 0;
    if (!*t->model.ended) top_sampler_read_stack(t->sampler, &t->model);
  }
}

/* ---- the live view ------------------------------------------------------------------------ */

static void draw(top_t *t) {
  screen_size(&t->view.columns, &t->view.rows);
  top_layout(&t->model, &t->view, &t->lines);
  screen_draw(&t->lines);
}

/* Waits for a key until the next reading is due. Returns false when the user quits. */
static bool wait_for_key(top_t *t, uint64_t until_ns) {
  uint64_t now_ns = os_monotonic_ns();
  int key = screen_key(until_ns > now_ns ? until_ns - now_ns : 0, &t->waiting);
  for (; key >= 0; key = screen_key(0, &t->waiting)) {
    top_action_t action = top_view_key(&t->view, &t->model, key);
    if (action == TOP_QUIT) return false;
    obey(t, action);
    draw(t);
  }
  return !ended_by;
}

static void show_live(top_t *t) {
  uint64_t next_ns = os_monotonic_ns() + FIRST_NS, step_ns = os_monotonic_ns();
  read_all(t);
  draw(t);
  for (;;) {
    uint64_t now_ns = os_monotonic_ns();
    bool reads = !t->view.is_frozen && !*t->model.ended;
    if (reads && now_ns >= next_ns) {
      read_all(t);
      next_ns = now_ns + period(t);
      draw(t);
    } else if (reads && now_ns >= step_ns) {
      top_sampler_step(t->sampler, &t->model);
    }
    if (now_ns >= step_ns) step_ns = now_ns + TOP_STEP_NS;
    uint64_t until_ns = reads ? (next_ns < step_ns ? next_ns : step_ns) : now_ns + 1000000000u;
    if (!wait_for_key(t, until_ns)) return;
  }
}

/* ---- printed frames ----------------------------------------------------------------------- */

static void print_frame(top_t *t, bool is_first) {
  t->view.columns = terminal_columns(stdout);
  top_layout(&t->model, &t->view, &t->lines);
  if (!is_first) putchar('\n');
  for (size_t i = 0; i < t->lines.count; i++) {
    char *text = t->lines.items[i].text;
    size_t length = strlen(text);
    while (length && text[length - 1] == ' ')
      text[--length] = 0;
    puts(text);
  }
  fflush(stdout);
}

/* Waits until UNTIL_NS and adds samples meanwhile. False after a signal. */
static bool sample_until(top_t *t, uint64_t until_ns) {
  for (uint64_t now_ns; !ended_by && (now_ns = os_monotonic_ns()) < until_ns;) {
    uint64_t rest_ns = until_ns - now_ns < TOP_STEP_NS ? until_ns - now_ns : TOP_STEP_NS;
    const struct timespec rest = {.tv_sec = (time_t)(rest_ns / 1000000000u),
                                  .tv_nsec = (long)(rest_ns % 1000000000u)};
    (void)ppoll(NULL, 0, &rest, &t->waiting);
    top_sampler_step(t->sampler, &t->model);
  }
  return !ended_by;
}

static void show_frames(top_t *t, long frames) {
  read_all(t);
  for (long i = 0; i < frames && !*t->model.ended; i++) {
    if (!sample_until(t, os_monotonic_ns() + period(t))) return;
    read_all(t);
    print_frame(t, i == 0);
    if (ferror(stdout)) return;
  }
}

/* ---- the whole ---------------------------------------------------------------------------- */

static bool open_program(top_t *t) {
  problem_t problem = {{0}};
  const top_options_t *o = t->options;
  if (!o->pid && !top_run_start(&t->run, o->command, o->output)) return false;
  pid_t pid = o->pid ? o->pid : t->run.program;
  t->heap.pid = pid;
  t->model.pid = pid;
  t->sampler = top_sampler_open(pid, &problem);
  if (t->sampler) return true;
  if (t->run.recorder) top_run_end(&t->run);
  (void)message_fail("%s", problem.text);
  return false;
}

static void close_program(top_t *t) {
  top_sampler_close(t->sampler);
  if (t->run.recorder) top_run_end(&t->run);
  top_model_free(&t->model);
  free(t->lines.items);
}

int top_show(const top_options_t *options) {
  top_t t = {.options = options};
  setlocale(LC_CTYPE, "");
  t.view.is_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  const char *refusal = options->frames ? NULL : screen_refusal();
  if (!open_program(&t)) return MESSAGE_FAILED;
  catch_signals(&t.waiting);
  t.view.is_live = !options->frames && !refusal && screen_open();
  if (t.view.is_live) {
    show_live(&t);
    screen_close();
  } else {
    show_frames(&t, options->frames ? options->frames : 1);
  }
  close_program(&t);
  sigprocmask(SIG_SETMASK, &t.waiting, NULL);
  if (ended_by != SIGTERM && ended_by != SIGHUP) return 0;
  fflush(NULL);
  signal(ended_by, SIG_DFL);
  raise(ended_by);
  return MESSAGE_FAILED;
}
