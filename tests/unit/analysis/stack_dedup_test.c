/* SPDX-License-Identifier: MIT
 *
 * Random stacks over images at several addresses, some of the same build. Two stacks are equal
 * exactly if each pair of frames has the same build and offset. Permuted and recursive stacks are
 * included.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "analysis/stack_dedup.h"
#include "record/format.h"
#include "recorder/recording_file.h"
#include "record/writer.h"

enum { IMAGES = 8, OFFSETS = 2, BARE = 2, NODES = 3000, PARENTS = 150, DEPTH_MAX = PARENTS + 1 };
enum { FRAMES = IMAGES * OFFSETS * 2 + BARE, CIRCLE = NODES + 1, UNDEFINED = NODES + 9 };

/* Kinds differ by build and file name, not by folder; without a build-id, by the image. */
static const struct {
  const char *path, *build_id;
  char kind;
} images[IMAGES] = {{"/lib/a.so", "build-1", 'A'}, {"/lib/a.so", "build-1", 'A'},
                    {"/lib/a.so", "build-2", 'B'}, {"/usr/lib/a.so", "build-1", 'A'},
                    {"/lib/b.so", "build-1", 'C'}, {"/lib/b.so", "build-1", 'C'},
                    {"/lib/c.so", "", 'D'},        {"/lib/c.so", "", 'E'}};

static struct { uint32_t parent, frame; } nodes[NODES + 1];

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

/* A stack extends one of the first few stacks, so many are similar. */
static void make_nodes(uint64_t seed) {
  for (uint32_t i = 1; i <= NODES; i++) {
    nodes[i].parent = (uint32_t)(next_random(&seed) % (i < PARENTS ? i : PARENTS));
    nodes[i].frame = 1 + (uint32_t)(next_random(&seed) % FRAMES);
  }
}

/* Frame 1 … FRAMES as a letter for its image and a digit for the rest. */
static void kind_of(uint32_t frame, char *out) {
  uint32_t n = frame - 1, image = n / (OFFSETS * 2);
  out[0] = image < IMAGES ? images[image].kind : '-';
  out[1] = (char)('0' + n % (OFFSETS * 2));
}

static void words_of(uint32_t stack, char *out) {
  for (; stack; stack = nodes[stack].parent, out += 2)
    kind_of(nodes[stack].frame, out);
  *out = 0;
}

static void child(const char *settings) {
  if (writer_start(settings) != 0) _exit(9);
  for (uint32_t i = 0; i < IMAGES; i++) {
    uint64_t base = 0x10000 * (i + 1);
    writer_image(i + 1, base, base + 0x1000, base, (const uint8_t *)images[i].build_id,
                 (uint32_t)strlen(images[i].build_id), images[i].path);
  }
  for (uint32_t i = 0; i < FRAMES; i++) {
    uint32_t image = i / (OFFSETS * 2), offset = 0x100 * (i / 2 % OFFSETS);
    bool bare = image >= IMAGES;
    writer_frame(i + 1, 0x10000 * (image + 1) + offset, bare ? 0 : image + 1,
                 i % 2 ? FRAME_EXACT : 0);
  }
  for (uint32_t i = 1; i <= NODES; i++)
    writer_node(i, nodes[i].parent, nodes[i].frame);
  writer_node(CIRCLE, CIRCLE + 1, 1);
  writer_node(CIRCLE + 1, CIRCLE, 1);
  _exit(0);
}

static reader_t *record(const char *path) {
  char error[256], settings[64];
  recording_t recording;
  assert_int_equal(recording_create(&recording, path, 1, RECORD_AUDIT, 0, 0, error, sizeof error),
                   0);
  recording_settings(&recording, settings, sizeof settings);
  pid_t pid = fork();
  if (pid == 0) child(settings);
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  recording_finish(&recording, status);
  recording_release(&recording);
  reader_t *reader;
  assert_int_equal(reader_open(&reader, path, error, sizeof error), 0);
  return reader;
}

/* The first of the stacks 1 … STACK with the same frames. */
static uint32_t wanted(uint32_t stack) {
  static char words[NODES + 1][2 * DEPTH_MAX + 1];
  words_of(stack, words[stack]);
  for (uint32_t i = 1; i < stack; i++)
    if (!strcmp(words[i], words[stack])) return i;
  return stack;
}

static void stacks_with_equal_frames_are_equal(void **state) {
  (void)state;
  const char *given = getenv("SONDE_SEED");
  uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)getpid();
  print_message("SONDE_SEED=%llu\n", (unsigned long long)seed);
  make_nodes(seed);
  char path[64];
  snprintf(path, sizeof path, "/tmp/sonde-same-stacks-test.%d", (int)getpid());
  reader_t *reader = record(path);
  stack_dedup_t *same = stack_dedup_new(reader);
  assert_non_null(same);
  uint32_t first, merged = 0;
  for (uint32_t i = 1; i <= NODES; i++) {
    assert_true(stack_dedup_first(same, i, &first));
    assert_int_equal(first, wanted(i));
    uint32_t again;
    assert_true(stack_dedup_first(same, i, &again));
    assert_int_equal(again, first);
    merged += first != i;
  }
  assert_true(merged > 0 && merged < NODES);
  static const uint32_t alone[] = {0, CIRCLE, CIRCLE + 1, UNDEFINED};
  for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
    assert_true(stack_dedup_first(same, alone[i], &first));
    assert_int_equal(first, alone[i]);
  }
  stack_dedup_free(same);
  reader_close(reader);
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(stacks_with_equal_frames_are_equal)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
