/* SPDX-License-Identifier: MIT
 *
 * A recording that is read in parts while threads write it: each event is read once, whether the
 * program ends or is killed. In a recording with a limit, what was overwritten before it was read
 * is counted.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "reader/merge.h"
#include "reader/resume.h"
#include "record/event.h"
#include "record/writer.h"
#include "recorder/recording_file.h"
#include "skip.h"

enum { THREADS = 3, EVENTS = 60000, PARTS = 30, REALLOC_EVERY = 7, ADDRESS = 0x10000 };

/* In memory shared with the child: events whose call has returned, of each thread, and the event up
 * to which threads may go on, so that there are many parts however slow the reader is. */
static uint32_t *committed, *allowed;

/* Event number I of a thread has size I, and is a realloc at times. */
static void *work(void *argument) {
  uint32_t *done = argument;
  for (uint32_t i = 1; i <= EVENTS; i++) {
    while (__atomic_load_n(allowed, __ATOMIC_ACQUIRE) < i)
      sched_yield();
    stream_t *s = writer_enter(RECORD_BLOCKS);
    if (!s) return NULL;
    uint64_t time = writer_now(s->writer);
    bool put = i % REALLOC_EVERY
                   ? event_put_new(s, EVENT_MALLOC, time, ADDRESS + 16 * i, i, i % 100)
                   : event_put_realloc(s, time, writer_now(s->writer), ADDRESS, ADDRESS, i, 1);
    if (!put) writer_lost_event(s->writer->control);
    writer_leave(s);
    __atomic_store_n(done, i, __ATOMIC_RELEASE);
  }
  return NULL;
}

static void child(const char *settings) {
  pthread_t threads[THREADS];
  if (writer_start(settings) != 0) _exit(9);
  for (size_t n = 0; n < THREADS; n++)
    pthread_create(&threads[n], NULL, work, &committed[n]);
  for (size_t n = 0; n < THREADS; n++)
    pthread_join(threads[n], NULL);
  _exit(0);
}

typedef struct run {
  char path[64];
  recording_t recording;
  pid_t pid;
  resume_t *resume;
  /* by stream: the last event; of these, how many there were; parts with any */
  uint64_t last[64], events, parts;
  uint64_t overwritten; /* chunks */
} run_t;

static void start(run_t *r, uint64_t limit) {
  static int number;
  char error[256] = "", settings[64];
  memset(r, 0, sizeof *r);
  memset(committed, 0, THREADS * sizeof *committed);
  *allowed = 0;
  snprintf(r->path, sizeof r->path, "/tmp/sonde-resume-test.%d.%d", (int)getpid(), number++);
  assert_int_equal(
      recording_create(&r->recording, r->path, 1, RECORD_BLOCKS, 0, limit, error, sizeof error), 0);
  recording_settings(&r->recording, settings, sizeof settings);
  r->resume = resume_new(0);
  assert_non_null(r->resume);
  r->pid = fork();
  assert_true(r->pid >= 0);
  if (r->pid == 0) child(settings);
}

/* A realloc is two events of one number, which may be in two parts. */
static void take(run_t *r, const record_event_t *e, bool has_gaps) {
  assert_true(e->stream < 64);
  uint64_t *last = &r->last[e->stream];
  if (e->kind == EVENT_REALLOC && e->moment == 0) return;
  if (has_gaps)
    assert_true(e->size > *last);
  else {
    if (e->size != *last + 1)
      print_message("stream %u of part %llu\n", e->stream, (unsigned long long)r->parts);
    assert_int_equal(e->size, *last + 1);
  }
  *last = e->size;
  r->events++;
}

static void read_part(run_t *r, bool has_gaps) {
  __atomic_fetch_add(allowed, EVENTS / PARTS, __ATOMIC_RELEASE); /* while it is read */
  char error[256] = "";
  reader_t *reader;
  assert_int_equal(resume_open(&reader, r->path, r->resume, error, sizeof error), 0);
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  uint64_t before = r->events;
  while ((e = merge_next(merge)))
    take(r, e, has_gaps);
  merge_close(merge);
  assert_true(resume_advance(r->resume, reader));
  if (!has_gaps) assert_int_equal(reader_damage(reader)->missing_chunks, 0);
  r->overwritten += reader_damage(reader)->dropped_chunks;
  r->parts += r->events > before;
  reader_close(reader);
}

/* Reads parts until the program has ended, and then the last one. Returns its wait status. */
static int read_all(run_t *r, bool has_gaps) {
  int status;
  while (waitpid(r->pid, &status, WNOHANG) == 0)
    read_part(r, has_gaps);
  recording_finish(&r->recording, status);
  read_part(r, has_gaps);
  uint64_t events = r->events;
  read_part(r, has_gaps); /* nothing is read again */
  assert_int_equal(r->events, events);
  recording_release(&r->recording);
  resume_free(r->resume);
  unlink(r->path);
  return status;
}

static void each_event_is_read_once(void **unused) {
  (void)unused;
  run_t r;
  start(&r, 0);
  assert_int_equal(read_all(&r, false), 0);
  assert_int_equal(r.events, THREADS * EVENTS);
  print_message("%llu parts\n", (unsigned long long)r.parts);
  assert_true(r.parts > 1);
}

static void a_kill_changes_nothing(void **unused) {
  (void)unused;
  const char *given = getenv("SONDE_SEED");
  unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)getpid();
  print_message("SONDE_SEED=%u\n", seed);
  for (int round = 0; round < repeats(20); round++) {
    run_t r;
    start(&r, 0);
    for (int parts = rand_r(&seed) % PARTS; parts > 0; parts--)
      read_part(&r, false);
    usleep((useconds_t)(rand_r(&seed) % 3000));
    kill(r.pid, SIGKILL);
    (void)read_all(&r, false);
    uint64_t least = 0;
    for (size_t n = 0; n < THREADS; n++)
      least += committed[n];
    assert_true(r.events >= least && r.events <= least + THREADS);
  }
}

static void what_was_overwritten_is_counted(void **unused) {
  (void)unused;
  run_t r;
  start(&r, 1 << 16);
  int status;
  read_part(&r, true);
  *allowed = EVENTS;
  assert_int_equal(waitpid(r.pid, &status, 0), r.pid);
  recording_finish(&r.recording, status);
  read_part(&r, true);
  uint64_t events = r.events;
  read_part(&r, true);
  assert_int_equal(r.events, events);
  assert_true(events > 0 && events < THREADS * EVENTS && r.overwritten > 0);
  recording_release(&r.recording);
  resume_free(r.resume);
  unlink(r.path);
}

/* Names that were looked up once are those of the next readers' frames. */
static void names_are_remembered(void **unused) {
  (void)unused;
  resume_t *resume = resume_new(1);
  const record_function_t two[] = {{.name = "inner", .file = "a.c", .line = 3, .inlined = true},
                                   {.name = "outer", .file = "", .line = 0}};
  const record_frame_t frame = {.id = 5, .image = 1}, without_image = {.id = 6};
  assert_true(resume_name_frame(resume, &frame, two, 2));
  assert_true(resume_name_frame(resume, &frame, NULL, 0)); /* it has them already */
  assert_true(resume_name_frame(resume, &without_image, two, 2));
  record_frame_t frames[] = {frame, without_image, {.id = 7, .image = 1}};
  resume_name_frames(resume, frames, 3);
  assert_int_equal(frames[0].function_count, 2);
  assert_string_equal(frames[0].functions[0].name, "inner");
  assert_string_equal(frames[0].functions[1].name, "outer");
  assert_int_equal(frames[0].functions[0].line, 3);
  assert_true(frames[0].functions[0].inlined);
  assert_int_equal(frames[1].function_count, 0);
  assert_int_equal(frames[2].function_count, 0);
  resume_free(resume);
}

int main(void) {
  committed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (committed == MAP_FAILED) return 1;
  allowed = committed + THREADS;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_event_is_read_once),
      cmocka_unit_test(a_kill_changes_nothing),
      cmocka_unit_test(what_was_overwritten_is_counted),
      cmocka_unit_test(names_are_remembered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
