/* SPDX-License-Identifier: MIT
 *
 * The classification of images, and the packages of files: compared with dpkg-query, and with
 * databases that the test writes.
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

#include "symbol/package.h"
#include "symbol/system.h"

static void default_rules(void **state) {
  (void)state;
  static const struct {
    const char *path;
    bool is_system;
  } cases[] = {{"/usr/lib/x86_64-linux-gnu/libc.so.6", true},
               {"/lib64/ld-linux-x86-64.so.2", true},
               {"/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30", true},
               {"[vdso]", true},
               {"/usr/bin/redis-server", false},
               {"/usr/lib/x86_64-linux-gnu/libssl.so.3", false},
               {"/lib/ld-musl-x86_64.so.1", false}};
  const char *exe = "/lib/ld-musl-x86_64.so.1"; /* run directly: it is the program */
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_int_equal(system_is(NULL, exe, cases[i].path), cases[i].is_system);
}

static void globs_take_precedence(void **state) {
  (void)state;
  system_rules_t *rules = system_rules_new();
  assert_true(system_rules_add(rules, "libssl.so*", true));
  assert_true(system_rules_add(rules, "/opt/*", true));
  assert_true(system_rules_add(rules, "libc.so.6", false));
  assert_true(system_rules_add(rules, "/opt/mine/*", false));
  assert_true(system_is(rules, NULL, "/usr/lib/libssl.so.3"));
  assert_true(system_is(rules, NULL, "/opt/theirs/lib.so"));
  assert_false(system_is(rules, NULL, "/opt/mine/lib.so"));
  assert_false(system_is(rules, NULL, "/usr/lib/libc.so.6"));
  assert_false(system_is(rules, NULL, "/usr/lib/libcrypto.so.3"));
  assert_true(system_rules_add(rules, "libcrypto.so.#", true));
  assert_true(system_is(rules, NULL, "/usr/lib/libcrypto.so.31"));
  assert_false(system_is(rules, NULL, "/usr/lib/libcrypto.so.x"));
  assert_true(system_rules_add(rules, "lib[c]rypt.so", true));
  assert_false(system_is(rules, NULL, "/usr/lib/libcrypt.so"));
  system_rules_free(rules);
}

static void owners_equal_dpkg_query(void **state) {
  (void)state;
  if (access("/var/lib/dpkg/info", R_OK) != 0) skip();
  static const char *const paths[] = {"/bin/bash", "/usr/bin/env", "/usr/bin/dpkg",
                                      "/usr/bin/python3"};
  packages_t *packages = packages_new("");
  assert_non_null(packages);
  int asked = 0;
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    char command[256], line[512] = "";
    snprintf(command, sizeof command, "dpkg-query -S %s 2>/dev/null", paths[i]);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    bool known = fgets(line, sizeof line, pipe) != NULL;
    pclose(pipe);
    if (!known || strchr(line, ' ') == NULL) continue;
    line[strcspn(line, ":")] = 0;
    const char *owner = package_of(packages, paths[i]);
    assert_non_null(owner);
    assert_string_equal(owner, line);
    asked++;
  }
  assert_true(asked > 0);
  assert_null(package_of(packages, "/nowhere/lib.so"));
  packages_free(packages);
}

static void run(const char *format, const char *folder) {
  char command[2048];
  snprintf(command, sizeof command, format, folder, folder, folder, folder);
  if (system(command) != 0) fail_msg("%s", command);
}

static void owners_of_apk(void **state) {
  (void)state;
  char root[] = "/tmp/sonde-apk-XXXXXX";
  assert_non_null(mkdtemp(root));
  run("mkdir -p %s/lib/apk/db && printf "
      "'P:musl\\nF:lib\\nR:ld-musl-x86_64.so.1\\n\\nP:zlib\\nF:usr/lib\\n"
      "R:libz.so.1\\nF:usr/share/doc\\nR:zlib\\n' > %s/lib/apk/db/installed",
      root);
  packages_t *packages = packages_new(root);
  assert_string_equal(package_of(packages, "/lib/ld-musl-x86_64.so.1"), "musl");
  assert_string_equal(package_of(packages, "/usr/lib/libz.so.1"), "zlib");
  assert_string_equal(package_of(packages, "/lib/libz.so.1"), "zlib"); /* under its other path */
  assert_null(package_of(packages, "/usr/lib/libzstd.so.1"));
  packages_free(packages);
  run("rm -rf %s", root);
}

static void owners_of_rpm(void **state) {
  (void)state;
  if (system("command -v rpmbuild >/dev/null && command -v rpm >/dev/null") != 0) {
    printf("skipped: rpmbuild is not installed\n");
    skip();
  }
  char root[] = "/tmp/sonde-rpm-XXXXXX";
  assert_non_null(mkdtemp(root));
  run("cd %s && printf 'Name: demo\\nVersion: 1\\nRelease: 1\\nSummary: s\\nLicense: "
      "MIT\\nBuildArch: noarch\\n"
      "%%%%description\\nd\\n%%%%install\\nmkdir -p %%%%{buildroot}/opt/demo && echo x > "
      "%%%%{buildroot}/opt/demo/libdemo.so\\n%%%%files\\n/opt/demo/libdemo.so\\n' > demo.spec && "
      "rpmbuild -bb --define \"_topdir %s/build\" demo.spec >log 2>&1 && mkdir root && "
      "rpm --root %s/root --dbpath /var/lib/rpm --nodeps -i build/RPMS/noarch/demo*.rpm >>log 2>&1",
      root);
  char inner[64];
  snprintf(inner, sizeof inner, "%s/root", root);
  packages_t *packages = packages_new(inner);
  const char *owner = package_of(packages, "/opt/demo/libdemo.so");
  assert_non_null(owner);
  assert_string_equal(owner, "demo");
  assert_null(package_of(packages, "/opt/demo/other.so"));
  packages_free(packages);
  run("rm -rf %s", root);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(default_rules),           cmocka_unit_test(globs_take_precedence),
      cmocka_unit_test(owners_equal_dpkg_query), cmocka_unit_test(owners_of_apk),
      cmocka_unit_test(owners_of_rpm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
