/* SPDX-License-Identifier: MIT
 *
 * URLs of stores in ClickHouse, of one server and of the servers of a cluster.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "store/clickhouse/address.h"

static void one_server_has_the_default_port(void **state) {
  (void)state;
  address_t a;
  assert_null(address_read(&a, "clickhouse://db.example/fleet"));
  assert_int_equal(a.servers, 1);
  assert_string_equal(a.bases[0], "http://db.example:8123/");
  assert_string_equal(a.database, "fleet");
  assert_string_equal(a.cluster, "");
  assert_null(address_read(&a, "clickhouse+https://[::1]/x"));
  assert_string_equal(a.bases[0], "https://[::1]:8443/");
  assert_null(address_read(&a, "clickhouse+https://[::1]:9/x"));
  assert_string_equal(a.bases[0], "https://[::1]:9/");
}

static void servers_of_a_cluster(void **state) {
  (void)state;
  address_t a;
  assert_null(address_read(&a, "clickhouse://one:81,two,[::2]:83/fleet?cluster=pair_2"));
  assert_int_equal(a.servers, 3);
  assert_string_equal(a.bases[0], "http://one:81/");
  assert_string_equal(a.bases[1], "http://two:8123/");
  assert_string_equal(a.bases[2], "http://[::2]:83/");
  assert_string_equal(a.database, "fleet");
  assert_string_equal(a.cluster, "pair_2");
  assert_null(address_read(&a, "clickhouse://one/fleet?cluster=single"));
  assert_string_equal(a.cluster, "single");
  assert_int_equal(a.seconds, ADDRESS_SECONDS);
  assert_null(address_read(&a, "clickhouse://one/fleet?timeout=1"));
  assert_int_equal(a.seconds, 1);
  assert_null(address_read(&a, "clickhouse://one/fleet?timeout=86400&cluster=single"));
  assert_int_equal(a.seconds, 86400);
  assert_string_equal(a.cluster, "single");
}

static void wrong_ones_are_refused(void **state) {
  static const char *const wrong[] = {"clickhouse://",
                                      "clickhouse:///x",
                                      "clickhouse://h",
                                      "clickhouse://h/",
                                      "clickhouse://h/a-b",
                                      "clickhouse://user:secret@h/x",
                                      "clickhouse://h#/x",
                                      "clickhouse://one,two/x",
                                      "clickhouse://one,/x?cluster=c",
                                      "clickhouse://,one/x?cluster=c",
                                      "clickhouse://one/x?cluster=",
                                      "clickhouse://one/x?cluster=a;b",
                                      "clickhouse://one/x?",
                                      "clickhouse://one/x?timeout=",
                                      "clickhouse://one/x?timeout=0",
                                      "clickhouse://one/x?timeout=86401",
                                      "clickhouse://one/x?timeout=99999999999999999999",
                                      "clickhouse://one/x?timeout=5s",
                                      "clickhouse://one/x?timeout=5&",
                                      "clickhouse://one/x?cluster=c&&timeout=5",
                                      "clickhouse://one/x?database=y",
                                      "clickhouse://one/?cluster=c"};
  char many[1024] = "clickhouse://h";
  address_t a;
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_non_null(address_read(&a, wrong[i]));
  for (int i = 1; i < ADDRESS_SERVERS_MAX; i++)
    strcat(many, ",h");
  strcpy(many + strlen(many), "/x?cluster=c");
  assert_null(address_read(&a, many));
  assert_int_equal(a.servers, ADDRESS_SERVERS_MAX);
  snprintf(many + strlen(many) - strlen("/x?cluster=c"), 32, ",h/x?cluster=c");
  assert_non_null(address_read(&a, many));
  assert_true(address_is_url("clickhouse://x") && !address_is_url("sqlite:x") &&
              !address_is_url(NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_server_has_the_default_port),
                                     cmocka_unit_test(servers_of_a_cluster),
                                     cmocka_unit_test(wrong_ones_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
