/* SPDX-License-Identifier: MIT
 *
 * A program that names its own stack, in forms that make that hard: statically linked, without
 * .eh_frame_hdr, with .debug_frame alone, without any row, prelinked, stripped, without section
 * headers, deleted while it runs, and from memory alone. What it prints is compared here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static char text[65536];

/* Runs COMMAND in the shell; what it prints is in `text`. Returns its exit status. */
static int run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int run(const char *format, ...) {
  char command[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof command, format, arguments);
  va_end(arguments);
  FILE *f = popen(command, "r");
  assert_non_null(f);
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  int status = pclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const char *what) {
  if (!strstr(text, what)) fail_msg("no '%s' in:\n%s", what, text);
}

static void expect_all_names(void) {
  expect("  inner+0x");
  expect("  outer+0x");
  expect("  main+0x");
  expect("  _start+0x");
  expect("mark 0\n");
}

static void expect_form(const char *form) {
  if (run("%s/%s", SONDE_FIXTURES, form) != 0) fail_msg("%s:\n%s", form, text);
  expect_all_names();
}

static void test_plain(void **state) {
  (void)state;
  expect_form("inside");
}

static void test_static(void **state) {
  (void)state;
  expect_form("inside-static");
  expect("  __libc_start_main");
}

static void test_without_eh_frame_hdr(void **state) {
  (void)state;
  expect_form("inside-no-header");
}

static void test_debug_frame_alone(void **state) {
  (void)state;
  expect_form("inside-debug-frame");
}

/* The code itself tells where the return address is. */
static void test_no_rows(void **state) {
  (void)state;
  expect_form("inside-no-rows");
}

static char copy[] = "/tmp/sonde-inside-XXXXXX";

static void copy_program(void) {
  assert_int_equal(run("cp -f %s/inside %s && chmod 755 %s", SONDE_FIXTURES, copy, copy), 0);
}

static void test_stripped(void **state) {
  (void)state;
  copy_program();
  assert_int_equal(run("strip %s && %s", copy, copy), 0);
  expect("  ??  (/tmp/sonde-inside-");
  expect(", stripped)");
  expect("mark 0\n");
}

static void test_without_section_headers(void **state) {
  (void)state;
  copy_program();
  assert_int_equal(
      run("printf '\\0\\0\\0\\0\\0\\0\\0\\0' | dd of=%s bs=1 seek=40 conv=notrunc 2>&1 && "
          "printf '\\0\\0\\0\\0' | dd of=%s bs=1 seek=60 conv=notrunc 2>&1 && %s",
          copy, copy, copy),
      0);
  expect(", stripped)");
  expect("mark 0\n");
}

/* The program's own file is reached through /proc/self/exe, deleted or not. */
static void test_deleted(void **state) {
  (void)state;
  copy_program();
  assert_int_equal(run("exec 9<%s; rm %s; exec /proc/self/fd/9", copy, copy), 0);
  expect_all_names();
  expect("image 1 /tmp/sonde-inside-");
}

/* Linked to a fixed address, as prelink leaves a program. */
static void test_fixed_address(void **state) {
  (void)state;
  copy_program();
  int status = run("%s -no-pie -Wl,-Ttext-segment=0x10000000 -O2 -I%s/../include "
                   "%s/fixtures/inside.c %s/../../lib/libsonde.a -o %s && %s",
                   SONDE_CC, SONDE_TEST_SOURCES, SONDE_TEST_SOURCES, SONDE_FIXTURES, copy, copy);
  assert_int_equal(status, 0);
  expect_all_names();
  expect("#0   0x000000001000");
}

static void test_memfd(void **state) {
  (void)state;
  int fd = memfd_create("inside", 0);
  assert_int_equal(run("cat %s/inside > /proc/%d/fd/%d", SONDE_FIXTURES, getpid(), fd), 0);
  assert_int_equal(run("exec /proc/self/fd/%d", fd), 0);
  expect_all_names();
  expect("image 1 /memfd:inside program");
  close(fd);
}

static int start(void **state) {
  (void)state;
  int fd = mkstemp(copy);
  return fd < 0 || close(fd);
}

static int end(void **state) {
  (void)state;
  unlink(copy);
  return 0;
}

int main(void) {
  if (access(SONDE_FIXTURES "/inside", X_OK) != 0) {
    puts("skipped: a library built with a sanitizer cannot be linked into these programs");
    return 77;
  }
  if (getenv("SONDE_UNDER_QEMU")) {
    puts("skipped: programs of this machine are not started by the shell under qemu-user");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plain),
      cmocka_unit_test(test_static),
      cmocka_unit_test(test_without_eh_frame_hdr),
      cmocka_unit_test(test_debug_frame_alone),
      cmocka_unit_test(test_no_rows),
      cmocka_unit_test(test_stripped),
      cmocka_unit_test(test_without_section_headers),
      cmocka_unit_test(test_deleted),
      cmocka_unit_test(test_fixed_address),
      cmocka_unit_test(test_memfd),
  };
  return cmocka_run_group_tests(tests, start, end);
}
