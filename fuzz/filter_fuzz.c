/* SPDX-License-Identifier: MIT
 *
 * seccomp filters from arbitrary bytes: a call, then a program. A program that the kernel would
 * refuse is not run. What is known of a call can only make the verdict milder.
 */
#include <stddef.h>
#include <string.h>

#include "os/linux/calls/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The kernel's order: the smallest action, as a signed number, is the most severe. */
static bool is_milder(uint32_t a, uint32_t b) {
  return (int32_t)(a & 0xffff0000u) > (int32_t)(b & 0xffff0000u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct sock_filter program[BPF_MAXINSNS + 1];
  filter_call_t call = {0};
  const size_t head = 1 + 4 + sizeof call.pc + sizeof call.arguments;
  if (size < head) return 0;
  call.known = data[0] & 0x3f;
  call.pc_unknown = data[0] & 0x40;
  call.machine = data[0] & 0x80 ? 0 : FILTER_MACHINE;
  memcpy(&call.number, data + 1, 4);
  memcpy(&call.pc, data + 5, sizeof call.pc);
  memcpy(call.arguments, data + 5 + sizeof call.pc, sizeof call.arguments);
  size_t bytes = size - head;
  if (bytes > sizeof program) bytes = sizeof program;
  memcpy(program, data + head, bytes);
  uint32_t count = (uint32_t)(bytes / sizeof *program);
  if (!filter_is_valid(program, count)) return 0;
  uint32_t verdict = filter_verdict(program, count, &call);
  call.known = 0x3f;
  call.pc_unknown = false;
  if (is_milder(verdict, filter_verdict(program, count, &call))) __builtin_trap();
  return 0;
}
