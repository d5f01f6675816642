/* SPDX-License-Identifier: MIT
 *
 * SipHash-2-4: the vector of the paper's appendix A, and others of the reference implementation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/siphash.h"

/* The key has the bytes 0 to 15, the input the bytes from 0. */
static void vectors_are_those_published(void **state) {
  (void)state;
  static const uint64_t key[] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
  static const struct {
    size_t size;
    uint64_t hash;
  } vectors[] = {{0, UINT64_C(0x726fdb47dd0e0e31)},  {1, UINT64_C(0x74f839c593dc67fd)},
                 {7, UINT64_C(0xab0200f58b01d137)},  {8, UINT64_C(0x93f5f5799a932462)},
                 {15, UINT64_C(0xa129ca6149be45e5)}, {63, UINT64_C(0x958a324ceb064572)}};
  uint8_t input[64];
  for (size_t i = 0; i < sizeof input; i++)
    input[i] = (uint8_t)i;
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
    assert_true(siphash(key, input, vectors[i].size) == vectors[i].hash);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(vectors_are_those_published)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
