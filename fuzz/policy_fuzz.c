/* SPDX-License-Identifier: MIT
 *
 * Arbitrary bytes as an audit policy, in YAML and in its flat form: the policy is rejected, or the
 * result is valid and usable.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/audit/policy.h"

static void use(const audit_policy_t *flat) {
  static const char *const texts[] = {"", "/etc/shadow", "GITHUB_TOKEN"};
  for (uint32_t i = 0; i < flat->function_count && i < 64; i++)
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
      (void)audit_wants(flat, &audit_functions(flat)[i], texts[k]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char error[256];
  policy_source_t source = {.name = "fuzz", .text = (const char *)data, .size = size};
  policy_t *policy = policy_read(&source, NULL, 1, error, sizeof error);
  if (policy) {
    audit_policy_t *flat = policy_flatten(policy, "/home/fuzz");
    if (flat && !audit_policy_valid(flat, flat->size)) abort();
    if (flat) use(flat);
    free(flat);
    policy_free(policy);
  }
  uint32_t *copy = malloc(size + 4);
  memcpy(copy, data, size);
  if (audit_policy_valid(copy, size)) use((const audit_policy_t *)(void *)copy);
  free(copy);
  return 0;
}
