/* SPDX-License-Identifier: MIT
 *
 * Tests the option parser and its errors, numbers, suggestions, and the delay of the progress bar.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"

enum { KEY_DEPTH = CLI_LONG_ONLY, KEY_SAMPLE };
static const cli_option_t options[] = {{'c', "core", "FILE", "a core"},
                                       {KEY_DEPTH, "depth", "N", "at most N"},
                                       {KEY_SAMPLE, "sample", "[HZ]", "sample"},
                                       {'j', "json", NULL, "as JSON"},
                                       {0}};
static const cli_usage_t usage = {.verb = "stacks", .about = "Shows.", .options = options};

#define ARGV(...)                                                                                  \
  char *argv[] = {"stacks", __VA_ARGS__, NULL};                                                    \
  int argc = (int)(sizeof argv / sizeof *argv) - 1

static void separates_options_from_arguments(void **state) {
  (void)state;
  ARGV("-c", "core.1", "12", "--depth=7", "--sample", "--", "-j");
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  assert_int_equal(cli_next(&parser), 'c');
  assert_string_equal(parser.value, "core.1");
  assert_int_equal(cli_next(&parser), KEY_DEPTH);
  assert_string_equal(parser.value, "7");
  assert_int_equal(cli_next(&parser), KEY_SAMPLE);
  assert_null(parser.value);
  assert_int_equal(cli_next(&parser), 0);
  assert_int_equal(parser.rest_count, 2);
  assert_string_equal(parser.rest[0], "12");
  assert_string_equal(parser.rest[1], "-j");
}

static void stops_at_the_command(void **state) {
  (void)state;
  ARGV("-j", "ls", "-c", "x");
  cli_parser_t parser = cli_parser_for_command(&usage, argc, argv);
  assert_int_equal(cli_next(&parser), 'j');
  assert_int_equal(cli_next(&parser), 0);
  assert_int_equal(parser.rest_count, 3);
  assert_string_equal(parser.rest[1], "-c");
}

/* Parses ARGV with stderr in a file; the parser must fail and print EXPECTED. */
static void rejects(int argc, char **argv, const char *expected) {
  char path[] = "/tmp/sonde-cli-test-XXXXXX", line[256] = "";
  int fd = mkstemp(path), kept = dup(STDERR_FILENO);
  assert_true(fd >= 0 && kept >= 0);
  dup2(fd, STDERR_FILENO);
  message_set_verb("stacks");
  cli_parser_t parser = cli_parser(&usage, argc, argv);
  int key;
  while ((key = cli_next(&parser)) > 0)
    continue;
  fflush(stderr);
  dup2(kept, STDERR_FILENO);
  ssize_t count = pread(fd, line, sizeof line - 1, 0);
  close(fd), close(kept), unlink(path);
  assert_true(count >= 0);
  assert_int_equal(key, -1);
  assert_int_equal(parser.status, CLI_FAILED);
  assert_string_equal(line, expected);
}

static void reports_wrong_use_in_one_line(void **state) {
  (void)state;
  {
    ARGV("--dpeth=3");
    rejects(argc, argv, "sonde stacks: no option '--dpeth=3'; did you mean '--depth'?\n");
  }
  {
    ARGV("--json=3");
    rejects(argc, argv, "sonde stacks: option '--json' takes no value; see 'sonde help stacks'\n");
  }
  {
    ARGV("--core");
    rejects(argc, argv, "sonde stacks: option '--core' needs a value; see 'sonde help stacks'\n");
  }
  {
    ARGV("-jq");
    rejects(argc, argv, "sonde stacks: no option '-q'; see 'sonde help stacks'\n");
  }
}

static void accepts_whole_numbers_in_range(void **state) {
  (void)state;
  long value = 0;
  assert_true(parse_number("42", 1, 50, &value));
  assert_int_equal(value, 42);
  assert_true(parse_number("-3", -5, 50, &value));
  static const char *const bad[] = {"", "51", "0", "4x", " 4", "+4", "99999999999999999999", "-"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_false(parse_number(bad[i], 1, 50, &value));
  uint64_t address = 0;
  assert_true(parse_address("0x7fff00000010", &address) && address == 0x7fff00000010);
  assert_true(parse_address("dead", &address) && address == 0xdead);
  assert_false(parse_address("0x", &address));
  assert_false(parse_address("0xg", &address));
  assert_false(parse_address("-1", &address));
  assert_false(parse_address("0x10000000000000000", &address));
}

static void suggests_a_similar_word(void **state) {
  (void)state;
  static const char *const words[] = {"stacks", "record", "report", "symbolize"};
  assert_string_equal(suggest_nearest("stakcs", words, 4), "stacks");
  assert_string_equal(suggest_nearest("sym", words, 4), "symbolize");
  assert_string_equal(suggest_nearest("reprot", words, 4), "report");
  assert_null(suggest_nearest("zebra", words, 4));
  assert_null(suggest_nearest("", words, 4));
  assert_null(suggest_nearest("a-word-that-is-much-longer-than-any-verb-could-be", words, 4));
}

static void progress_bar_appears_after_a_second(void **state) {
  (void)state;
  const uint64_t s = 1000000000;
  assert_false(terminal_progress_due(5 * s, 0, 6 * s));
  assert_true(terminal_progress_due(5 * s, 0, 6 * s + 1));
  assert_false(terminal_progress_due(5 * s, 7 * s, 7 * s + s / 20));
  assert_true(terminal_progress_due(5 * s, 7 * s, 7 * s + s / 10));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(separates_options_from_arguments),
      cmocka_unit_test(stops_at_the_command),
      cmocka_unit_test(reports_wrong_use_in_one_line),
      cmocka_unit_test(accepts_whole_numbers_in_range),
      cmocka_unit_test(suggests_a_similar_word),
      cmocka_unit_test(progress_bar_appears_after_a_second),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
