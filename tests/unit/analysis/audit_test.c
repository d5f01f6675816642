/* SPDX-License-Identifier: MIT
 *
 * The audit sensor and the analysis together. A child calls functions over random paths on several
 * threads; the counts of the audit are exact. Each path has its own stack id, also permuted paths
 * and paths with recursion.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "analysis/audit/audit.h"
#include "arch/arch.h"
#include "base/varint.h"
#include "record/definitions.h"
#include "recorder/recording_file.h"
#include "record/writer.h"
#include "sensor/audit/audit.h"
#include "capture/stack.h"
#include "reader/merge.h"

#define THREADS     4
#define CALLS       20000
#define DEPTH       6
#define PATHS       (1 << 13) /* every path of two functions, up to DEPTH calls deep */
#define TEXT(value) ((uint64_t)(uintptr_t)(value))

static const char yaml[] = "version: 1\n"
                           "extends: none\n"
                           "categories:\n"
                           "  - id: paths\n"
                           "    functions: [getenv(text)]\n"
                           "    except: [not-me*]\n"
                           "  - id: others\n"
                           "    functions:\n"
                           "      - open(path, flags)\n"
                           "      - connect(number, address)\n"
                           "      - execve(path, strings)\n"
                           "limits:\n"
                           "  - category: others\n"
                           "    calls: 3\n"
                           "    window: 10m\n";
enum { GETENV, OPEN, CONNECT, EXECVE };

/* What the child did, by path. */
static struct {
  uint64_t seed;
  uint64_t counts[PATHS];
} * truth;

/* ---- the child ------------------------------------------------------------------------------ */

static audit_policy_t *flat;

typedef struct walk {
  uint64_t left; /* the functions still to call, one bit each, below a leading 1 */
  char path[DEPTH + 2];
} walk_t;

__attribute__((used, visibility("hidden"))) void leaf_of(const char *path, uint64_t pc, uint64_t sp,
                                                         uint64_t fp) {
  const uint64_t arguments[AUDIT_ARGUMENTS] = {TEXT(path)};
  audit_called(GETENV, arguments, (caller_t){pc, sp, fp});
}
void leaf(const char *path);
ENTRY_1(leaf, leaf_of);

static void a(walk_t *w);
static void b(walk_t *w);

static inline void go_on(walk_t *w) {
  if (w->left == 1) {
    leaf(w->path);
    return;
  }
  uint64_t next = w->left & 1;
  w->left >>= 1;
  if (next)
    a(w);
  else
    b(w);
}

__attribute__((noinline)) static void a(walk_t *w) {
  go_on(w);
  __asm__ volatile("" ::: "memory"); /* no tail call */
}

__attribute__((noinline)) static void b(walk_t *w) {
  go_on(w);
  __asm__ volatile("" ::: "memory");
}

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

static void *make_calls(void *argument) {
  uint64_t state = truth->seed + TEXT(argument);
  for (int i = 0; i < CALLS; i++) {
    unsigned depth = 1 + (unsigned)(next_random(&state) % DEPTH);
    uint64_t path = (UINT64_C(1) << depth) | (next_random(&state) & ((1u << depth) - 1));
    walk_t w = {.left = path};
    for (unsigned k = 0; k < depth; k++)
      w.path[k] = path >> k & 1 ? 'a' : 'b';
    __atomic_add_fetch(&truth->counts[path], 1, __ATOMIC_RELAXED);
    go_on(&w);
    leaf("not-me-either");
  }
  return NULL;
}

static void make_others(void) {
  const caller_t nowhere = {0};
  struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/x"};
  const char *argv[] = {"ls", "-l", NULL};
  const uint64_t calls[][AUDIT_ARGUMENTS] = {{TEXT("/etc/passwd"), O_CLOEXEC},
                                             {16, 0} /* no memory */,
                                             {5, TEXT(&address), 9},
                                             {TEXT("/bin/ls"), TEXT(argv)},
                                             {TEXT("/bin/ls"), 8}};
  static const uint32_t functions[] = {OPEN, OPEN, CONNECT, EXECVE, EXECVE};
  for (size_t i = 0; i < 5; i++)
    audit_called(functions[i], calls[i], nowhere);
}

static void child(const char *settings) {
  pthread_t threads[THREADS];
  if (!frame_table_init() || !stack_table_init()) _exit(8);
  definitions_start();
  if (writer_start(settings) != 0) _exit(9);
  audit_start(flat);
  audit_write_policy(yaml, sizeof yaml - 1, (const bool[]){true, true, true, false});
  for (size_t n = 0; n < THREADS; n++)
    pthread_create(&threads[n], NULL, make_calls, (void *)n);
  for (size_t n = 0; n < THREADS; n++)
    pthread_join(threads[n], NULL);
  make_others();
  _exit(0);
}

/* ---- the audit ------------------------------------------------------------------------------ */

static audit_t *audit_of(reader_t *reader) {
  audit_t *audit = audit_new(reader);
  merge_t *merge = merge_open(reader);
  const record_event_t *e;
  while ((e = merge_next(merge)))
    assert_true(audit_add(audit, e));
  merge_close(merge);
  return audit;
}

static uint64_t path_of(const char *text) {
  uint64_t path = 0;
  unsigned depth = 0;
  for (; text[depth]; depth++)
    path |= (uint64_t)(text[depth] == 'a') << depth;
  return path | UINT64_C(1) << depth;
}

static void check_paths(const audit_t *audit) {
  static uint64_t counts[PATHS];
  static uint32_t stacks[PATHS];
  memset(counts, 0, sizeof counts);
  for (size_t i = 0; i < audit->count; i++) {
    char text[AUDIT_TEXT_SIZE];
    if (audit->entries[i].function != GETENV) continue;
    audit_text(audit, &audit->entries[i], text);
    uint64_t path = path_of(text);
    assert_true(path < PATHS);
    assert_int_equal(counts[path], 0); /* one stack a path */
    counts[path] = audit->entries[i].count;
    stacks[path] = audit->entries[i].stack;
  }
  for (size_t path = 0; path < PATHS; path++) {
    assert_int_equal(counts[path], truth->counts[path]);
    for (size_t other = 0; counts[path] && other < path; other++)
      if (counts[other]) assert_int_not_equal(stacks[path], stacks[other]);
  }
}

static void check_others(const audit_t *audit) {
  static const char *const wanted[] = {"\"/etc/passwd\", O_RDONLY|O_CLOEXEC", "\"\", O_RDONLY",
                                       "5, unix:\"/run/x\"", "\"/bin/ls\", [\"ls\", \"-l\"]",
                                       "\"/bin/ls\", []"};
  size_t found = 0;
  for (size_t i = 0; i < audit->count; i++) {
    char words[256];
    if (audit->entries[i].function == GETENV) continue;
    audit_words(audit, &audit->entries[i], words, sizeof words);
    assert_true(found < 5);
    assert_string_equal(words, wanted[found++]);
  }
  assert_int_equal(found, 5);
  assert_int_equal(audit->limits[0].exceeded, 2);
}

static void counts_are_exact(void **state) {
  (void)state;
  char error[256], settings[64], path[64];
  const char *given = getenv("SONDE_SEED");
  recording_t recording;
  policy_source_t source = {.name = "test", .text = yaml, .size = sizeof yaml - 1};
  policy_t *policy = policy_read(&source, NULL, 0, error, sizeof error);
  if (!policy) fail_msg("%s", error);
  flat = policy_flatten(policy, "/root");
  truth->seed = given ? strtoull(given, NULL, 0) : (uint64_t)getpid();
  print_message("SONDE_SEED=%llu\n", (unsigned long long)truth->seed);
  snprintf(path, sizeof path, "/tmp/sonde-audit-test.%d", (int)getpid());
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
  assert_int_equal(reader_damage(reader)->bad_records, 0);
  audit_t *audit = audit_of(reader);
  assert_non_null(audit->policy);
  assert_int_equal(audit->calls, THREADS * CALLS + 5);
  assert_int_equal(audit->damaged, 0);
  assert_true(audit->reached[OPEN] && !audit->reached[EXECVE]);
  check_paths(audit);
  check_others(audit);
  audit_free(audit);
  reader_close(reader);
  free(flat);
  policy_free(policy);
  unlink(path);
}

/* <signal.h> and its like have the numbers of this machine, which are those of all Linux machines
 * that sonde records. */
static void numbers_are_words(void **state) {
  static const struct {
    const char *function;
    int64_t numbers[3];
    const char *words;
  } cases[] = {{"access", {0, R_OK | W_OK, 0}, "0, R_OK|W_OK, 0"},
               {"access", {0, F_OK, 0}, "0, F_OK, 0"},
               {"faccessat", {0, 0, X_OK}, "0, 0, X_OK"},
               {"kill", {1, SIGCHLD, 0}, "1, SIGCHLD, 0"},
               {"kill", {1, 0, 0}, "1, 0, 0"},
               {"kill", {-1, 40, 0}, "-1, 40, 0"},
               {"tgkill", {1, 2, SIGSYS}, "1, 2, SIGSYS"},
               {"socket", {AF_INET, SOCK_DGRAM, IPPROTO_UDP}, "AF_INET, SOCK_DGRAM, IPPROTO_UDP"},
               {"socket", {AF_INET6, SOCK_STREAM, 0}, "AF_INET6, SOCK_STREAM, 0"},
               {"socket", {AF_NETLINK, SOCK_RAW, 6}, "AF_NETLINK, SOCK_RAW, 6"}};
  static const uint8_t kinds[AUDIT_ARGUMENTS] = {AUDIT_NUMBER, AUDIT_NUMBER, AUDIT_NUMBER};
  enum { X86_64 = 62 };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint8_t bytes[32], *end = bytes;
    char words[200];
    for (int k = 0; k < 3; k++)
      end += varint_put(end, zigzag(cases[i].numbers[k]));
    audit_words_of(cases[i].function, X86_64, kinds, bytes, (uint32_t)(end - bytes), words,
                   sizeof words);
    assert_string_equal(words, cases[i].words);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_exact),
                                     cmocka_unit_test(numbers_are_words)};
  truth = mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
