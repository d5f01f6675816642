/* SPDX-License-Identifier: MIT
 *
 * What replies to pushed profiles mean, and the pauses between tries. Any bytes may come from a
 * server.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "store/push/push.h"
#include "store/push/request.h"

static http_reply_t reply;
static char error[512];

/* Longer than a message. */
static char long_secret[1000];

static reply_verdict_t judge(push_protocol_t protocol, long status, const void *body, size_t size) {
  static const char *secrets[] = {"s3cr3t", "Bearer t0p-s3kret", "team 1", long_secret};
  push_target_t target = {.protocol = protocol};
  target.secrets.items = secrets;
  target.secrets.count = sizeof secrets / sizeof *secrets;
  reply.status = status;
  reply.body_size = size;
  reply.body = malloc(size + 1); /* so a sanitizer sees a read behind it */
  assert_non_null(reply.body);
  memcpy(reply.body, body, size);
  reply.body[size] = 0;
  *error = 0;
  reply_verdict_t verdict = reply_judge(&target, &reply, error, sizeof error);
  free(reply.body);
  return verdict;
}

static int start(void **state) {
  (void)state;
  for (size_t i = 0; i + 1 < sizeof long_secret; i++)
    long_secret[i] = (char)('a' + i * i % 23);
  memset(&reply, 0, sizeof reply);
  reply.grpc_status = -1;
  return 0;
}

static void statuses_say_whether_to_try_again(void **state) {
  (void)state;
  static const long later[] = {429, 502, 503, 504},
                    never[] = {100, 302, 400, 401, 404, 408, 413, 500};
  for (size_t i = 0; i < sizeof later / sizeof *later; i++)
    for (int protocol = PUSH_OTLP; protocol <= PUSH_PARCA; protocol++)
      assert_int_equal(judge((push_protocol_t)protocol, later[i], "", 0), REPLY_LATER);
  for (size_t i = 0; i < sizeof never / sizeof *never; i++)
    assert_int_equal(judge(PUSH_OTLP, never[i], "", 0), REPLY_REFUSED);
  assert_int_equal(judge(PUSH_OTLP, 200, "", 0), REPLY_TAKEN);
  assert_int_equal(judge(PUSH_PYROSCOPE, 200, "{}", 2), REPLY_TAKEN);
  reply.is_permanent = false;
  assert_int_equal(judge(PUSH_OTLP, 0, "", 0), REPLY_LATER);
  reply.is_permanent = true;
  assert_int_equal(judge(PUSH_OTLP, 0, "", 0), REPLY_REFUSED);
}

static void only_harmless_text_is_quoted(void **state) {
  (void)state;
  judge(PUSH_OTLP, 400, "too old\r\nmore", 13);
  assert_string_equal(error, "HTTP status 400: too old");
  judge(PUSH_OTLP, 400, "got s3cr3t", 10);
  assert_string_equal(error, "HTTP status 400");
  judge(PUSH_OTLP, 400, "no token t0p-s3kret", 19);
  assert_string_equal(error, "HTTP status 400");
  judge(PUSH_OTLP, 400, "1 label is too long", 19);
  assert_string_equal(error, "HTTP status 400: 1 label is too long");
  judge(PUSH_OTLP, 400, "first\nthen s3cr3t", 17);
  assert_string_equal(error, "HTTP status 400");
  judge(PUSH_OTLP, 400, "\x1b[2J", 4);
  assert_string_equal(error, "HTTP status 400");
}

static void no_part_of_a_long_secret_is_quoted(void **state) {
  (void)state;
  uint8_t body[1400] = {0x0a, 0, 0, 0x08, 1, 0x12, 0, 0};
  static const size_t said[] = {8, 100, 199, 512, 900, 999};
  for (size_t i = 0; i < sizeof said / sizeof *said; i++)
    for (size_t before = 0; before < 300; before += 99) {
      size_t text = before + said[i], message = text + 5;
      body[1] = (uint8_t)(message | 0x80), body[2] = (uint8_t)(message >> 7);
      body[6] = (uint8_t)(text | 0x80), body[7] = (uint8_t)(text >> 7);
      memset(body + 8, '-', before);
      memcpy(body + 8 + before, long_secret + (999 - said[i]) / 2, said[i]);
      assert_int_equal(judge(PUSH_OTLP, 200, body, 8 + text), REPLY_REFUSED);
      size_t printed = strcspn(error, "-");
      assert_true(!strncmp(error, "1 profile was rejected", 22));
      if (before < 190) assert_string_equal(error, "1 profile was rejected");
      assert_in_range(strlen(error + printed) - strspn(error + printed, "-"), 0, 7);
    }
}

static void trailers_have_grpc_statuses(void **state) {
  (void)state;
  static const char good[] = "\0\0\0\0\3abc\x80\0\0\0\x0egrpc-status:0\n";
  static const char exhausted[] = "\x80\0\0\0\x11Grpc-Status: 8\r\nx";
  assert_int_equal(judge(PUSH_PARCA, 200, good, sizeof good - 1), REPLY_TAKEN);
  assert_int_equal(judge(PUSH_PARCA, 200, exhausted, sizeof exhausted - 1), REPLY_LATER);
  assert_int_equal(judge(PUSH_PARCA, 200, good, sizeof good - 3), REPLY_REFUSED); /* cut off */
  assert_int_equal(judge(PUSH_PARCA, 200, "", 0), REPLY_REFUSED);
  reply.grpc_status = 0;
  assert_int_equal(judge(PUSH_PARCA, 200, "", 0), REPLY_TAKEN);
}

static void any_bytes_are_judged(void **state) {
  (void)state;
  const char *chosen = getenv("SONDE_SEED");
  unsigned seed = chosen ? (unsigned)strtoul(chosen, NULL, 10) : (unsigned)time(NULL);
  printf("SONDE_SEED=%u\n", seed);
  for (int round = 0; round < 20000; round++) {
    uint8_t random[48];
    size_t size = (size_t)rand_r(&seed) % sizeof random;
    for (size_t i = 0; i < size; i++)
      random[i] = rand_r(&seed) % 3 ? (uint8_t)(rand_r(&seed) % 16) : (uint8_t)rand_r(&seed);
    if (size && round % 2) random[0] = 0x0a;
    for (int protocol = PUSH_OTLP; protocol <= PUSH_PARCA; protocol++)
      if (judge((push_protocol_t)protocol, 200, random, size) != REPLY_TAKEN) assert_true(*error);
  }
}

static void pauses_double_up_to_half_a_minute(void **state) {
  (void)state;
  static const double expected[] = {1, 2, 4, 8, 16, 30, 30};
  for (unsigned i = 0; i < 7; i++) {
    assert_true(fabs(push_pause_s(i + 2, -1, 0) - expected[i]) < 1e-9);
    assert_true(fabs(push_pause_s(i + 2, -1, 1) - expected[i] / 2) < 1e-9);
    assert_true(fabs(push_pause_s(i + 2, 40.5, 0.3) - 40.5) < 1e-9);
    assert_true(fabs(push_pause_s(i + 2, 0, 0) - expected[i]) < 1e-9);
  }
  assert_true(fabs(push_pause_s(1000000, -1, 0) - 30) < 1e-9);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(statuses_say_whether_to_try_again, start),
      cmocka_unit_test_setup(only_harmless_text_is_quoted, start),
      cmocka_unit_test_setup(no_part_of_a_long_secret_is_quoted, start),
      cmocka_unit_test_setup(trailers_have_grpc_statuses, start),
      cmocka_unit_test_setup(any_bytes_are_judged, start),
      cmocka_unit_test_setup(pauses_double_up_to_half_a_minute, start),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
