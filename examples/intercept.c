/* SPDX-License-Identifier: MIT
 *
 * Code before and after every call of a function: an imported one, and one of this program itself
 * (sonde/intercept.h).
 *
 *   cc intercept.c -lsonde && ./a.out
 */
#include <stdio.h>
#include <stdlib.h>

#include <sonde/intercept.h>

__attribute__((noinline)) double half(double of, int times);

double half(double of, int times) {
  while (times-- > 0)
    of /= 2;
  return of;
}

static void before_getenv(sonde_call_t *call, void *context) {
  ++*(int *)context;
  sonde_call_set_data(call, sonde_call_argument(call, 0));
}

static void after_getenv(sonde_call_t *call, sonde_call_end_t end, void *context) {
  const char *value = (const char *)sonde_call_result(call, 0);
  if (end == SONDE_CALL_RETURNED)
    printf("call %d: getenv(\"%s\") = %s\n", *(int *)context, (const char *)sonde_call_data(call),
           value ? value : "NULL");
}

static void before_half(sonde_call_t *call, void *context) {
  (void)context;
  printf("half(%g, %d)\n", sonde_call_argument_double(call, 0), (int)sonde_call_argument(call, 0));
}

static void after_half(sonde_call_t *call, sonde_call_end_t end, void *context) {
  (void)end, (void)context;
  printf("= %g\n", sonde_call_result_double(call, 0));
}

int main(void) {
  int calls = 0;
  sonde_intercept_t *import, *code;
  sonde_intercept_request_t of_getenv = {
      .target = "getenv", .before = before_getenv, .after = after_getenv, .context = &calls};
  sonde_intercept_request_t of_half = {
      .target = "!half", .before = before_half, .after = after_half};
  int status = sonde_intercept_add(&of_getenv, &import);
  if (status > 0) status = sonde_intercept_add(&of_half, &code);
  if (status < 0) {
    fprintf(stderr, "cannot intercept: %s\n", sonde_strerror(status));
    return 2;
  }
  (void)!getenv("NO_SUCH_VARIABLE");
  printf("%g\n", half(17, 2));
  sonde_intercept_remove(import);
  sonde_intercept_remove(code);
  (void)!getenv("ANOTHER"); /* not printed */
  printf("%g\n", half(8, 1));
  return calls == 1 ? 0 : 1;
}
