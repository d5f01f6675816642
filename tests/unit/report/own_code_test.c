/* SPDX-License-Identifier: MIT
 *
 * Tests which images and functions count as the program's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/own_code.h"

static void images(void **state) {
  (void)state;
  assert_true(own_image("/home/ann/app/libparser.so"));
  assert_true(own_image("/srv/app/plugins/b.so"));
  assert_false(own_image("/usr/lib/x86_64-linux-gnu/libz.so.1"));
  assert_false(own_image("/lib/x86_64-linux-gnu/libc.so.6"));
  assert_false(own_image("/home/ann/gcc/lib/libstdc++.so.6"));
  assert_false(own_image("[vdso]"));
}

static void functions(void **state) {
  (void)state;
  assert_true(own_function("fill", "/home/ann/app/app.cc"));
  assert_true(own_function("void app::sort<int>(std::vector<int>&)", NULL));
  assert_true(own_function("std::string app::name(int)", NULL));
  assert_true(own_function("app::Parser::operator std::string() const", "parser.cc"));
  assert_true(own_function("main", NULL));
  assert_true(own_function("allocate_orders", NULL));
  assert_true(own_function("fill(malloc_state*)", NULL));
  assert_true(own_function("malloc_and_fill", NULL));
  assert_false(own_function("ztrymalloc_usable", NULL));
  assert_false(own_function("zrealloc", "zmalloc.c"));
  assert_false(own_function("hashbrown::raw::inner::do_alloc",
                            "/rust/deps/hashbrown-0.16.1/src/raw/mod.rs"));
  assert_false(own_function("os.Open", "/usr/local/go/src/os/file.go"));
  assert_false(own_function("zap.New", "/home/ann/go/pkg/mod/go.uber.org/zap@v1.2.3/logger.go"));
  assert_true(own_function("main.load", "/home/ann/go/src/app/load.go"));
  assert_false(own_function("sync.(*Mutex).Lock", "/home/ann/sdk/go1.22/src/sync/mutex.go"));
  assert_false(own_function("net/http.(*Server).Serve", "net/http/server.go"));
  assert_true(own_function("sync/atomic", "/home/ann/time.c"));
  assert_true(own_function("app/log.New", "/home/ann/app/log/new.go"));
  assert_true(own_function("go.example.org/app.New", "/home/ann/app/new.go"));
  assert_true(own_function("main.run[go/ast.Node]", "/home/ann/app/run.go"));
  assert_true(own_function("time", "/home/ann/app/time.s"));
  assert_false(own_function("__GI___fstatat", NULL));
  assert_false(own_function("_dl_get_origin", NULL));
  assert_true(own_function("__fill", "/home/ann/app/app.c"));
  assert_false(own_function("app::Pool::Malloc(unsigned long)", NULL));
  assert_false(own_function("g_malloc0", NULL));
  assert_false(own_function("xstrdup", NULL));
  assert_false(own_function("__gthread_mutex_lock", NULL));
  assert_false(own_function("void std::sort<int*>(int*, int*)", NULL));
  assert_false(own_function("std::vector<app::Row>::push_back(app::Row const&)", NULL));
  assert_false(own_function("fill", "/usr/include/c++/12/bits/stl_algo.h"));
  assert_false(own_function("alloc::raw_vec::finish_grow", NULL));
  assert_false(own_function("<alloc::vec::Vec<T> as core::ops::Drop>::drop", NULL));
  assert_false(own_function("serde::de::f", "/root/.cargo/registry/src/serde-1.0/src/de.rs"));
  assert_false(own_function("_start", NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(images), cmocka_unit_test(functions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
