/* SPDX-License-Identifier: MIT
 *
 * Where profiles are pushed to: URLs, lists of the environment, files of headers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/push/target.h"

static push_target_t target;
static char error[512];

static bool read_target(const char *url, const char *file) {
  push_target_free(&target);
  return push_target_read(&target, url, file, error, sizeof error);
}

static int clear(void **state) {
  (void)state;
  push_target_free(&target);
  unsetenv("OTEL_SERVICE_NAME");
  unsetenv("OTEL_RESOURCE_ATTRIBUTES");
  unsetenv("OTEL_EXPORTER_OTLP_HEADERS");
  unsetenv("SONDE_PUSH_HEADERS");
  return 0;
}

static void a_url_names_the_protocol_and_gets_its_path(void **state) {
  (void)state;
  assert_true(read_target("http://host:4318", NULL));
  assert_int_equal(target.protocol, PUSH_OTLP);
  assert_string_equal(target.url, "http://host:4318/v1development/profiles");
  assert_true(read_target("pyroscope+https://[::1]/", NULL));
  assert_int_equal(target.protocol, PUSH_PYROSCOPE);
  assert_string_equal(target.url, "https://[::1]/push.v1.PusherService/Push");
  assert_true(read_target("parca+http://host/prefix/x?token=y", NULL));
  assert_int_equal(target.protocol, PUSH_PARCA);
  assert_string_equal(target.url, "http://host/prefix/x?token=y");
  assert_string_equal(target.host, "http://host"); /* what messages show */
}

static void other_urls_are_refused(void **state) {
  static const char *const urls[] = {"",
                                     "host",
                                     "http:/host",
                                     "http://",
                                     "http:///",
                                     "file:///x",
                                     "http://a b",
                                     "http://a\nb",
                                     "http://é",
                                     "otlp+http://host",
                                     "http://u:p@host",
                                     "http://?x"};
  (void)state;
  for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
    *error = 0;
    assert_false(read_target(urls[i], NULL));
    assert_true(*error && !strchr(error, '\n'));
  }
}

static void attributes_are_a_list_with_escapes(void **state) {
  (void)state;
  setenv("OTEL_RESOURCE_ATTRIBUTES", " a = b%2C%20c ,, service.name=one,d=", 1);
  setenv("OTEL_SERVICE_NAME", "two", 1);
  assert_true(read_target("http://host", NULL));
  assert_string_equal(push_target_value(&target, "a"), "b, c");
  assert_string_equal(push_target_value(&target, "d"), "");
  assert_string_equal(push_target_value(&target, "service.name"), "two");
  assert_true(push_target_label(&target, "service.name=three=3"));
  assert_string_equal(push_target_value(&target, "service.name"), "three=3");
  assert_null(push_target_value(&target, "e"));
  assert_false(push_target_label(&target, "=x"));
  assert_false(push_target_label(&target, "x"));
}

static void malformed_lists_are_refused(void **state) {
  static const char *const lists[] = {"a",     "=b",    "a=%",   "a=%2",
                                      "a=%zz", "a=%00", "a=b,c", "a=\x01"};
  (void)state;
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    setenv("OTEL_RESOURCE_ATTRIBUTES", lists[i], 1);
    assert_false(read_target("http://host", NULL));
    assert_non_null(strstr(error, "OTEL_RESOURCE_ATTRIBUTES"));
  }
  unsetenv("OTEL_RESOURCE_ATTRIBUTES");
  setenv("SONDE_PUSH_HEADERS", "a=x%0d%0aInjected: y", 1);
  assert_false(read_target("http://host", NULL));
}

static bool read_headers(const char *text, size_t size) {
  char path[] = "/tmp/sonde-headers-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0 && write(fd, text, size) == (ssize_t)size);
  close(fd);
  bool good = read_target("http://host", path);
  unlink(path);
  return good;
}

static void headers_come_from_files_and_the_environment(void **state) {
  static const char text[] = "# comment\r\nAuthorization:Bearer x: y\r\n\n  X-Empty :  \n";
  (void)state;
  setenv("SONDE_PUSH_HEADERS", "k=v", 1);
  assert_true(read_headers(text, sizeof text - 1));
  assert_int_equal(target.headers.count, 3);
  assert_string_equal(target.headers.items[0], "k: v");
  assert_string_equal(target.headers.items[1], "Authorization: Bearer x: y");
  assert_string_equal(target.headers.items[2], "X-Empty: ");
  assert_int_equal(target.secrets.count, 2);
  assert_false(read_headers("no colon", 8));
  assert_false(read_headers("a b: c", 6));
  assert_false(read_headers("a: b\0c", 6));
  assert_false(read_headers("a: b\x01"
                            "c",
                            6));
  assert_true(read_headers("", 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(a_url_names_the_protocol_and_gets_its_path, clear),
      cmocka_unit_test_teardown(other_urls_are_refused, clear),
      cmocka_unit_test_teardown(attributes_are_a_list_with_escapes, clear),
      cmocka_unit_test_teardown(malformed_lists_are_refused, clear),
      cmocka_unit_test_teardown(headers_come_from_files_and_the_environment, clear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
