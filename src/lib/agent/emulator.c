/* SPDX-License-Identifier: MIT
 *
 * Programs that are not executed by the CPU alone.
 *
 * valgrind translates its program, has an allocator of its own for it, replaces some system calls,
 * and reports what reads memory as freely as the agent does. What the agent adds would stand in its
 * results. So the agent is not handed on to it: its launcher executes the tool with a variable of
 * its own in the environment, and the program under the tool never sees the agent. Where the agent
 * is under valgrind nevertheless, since the launcher could not load it, it passes every call on and
 * does nothing else.
 *
 * qemu's user mode is a program like others, and is recorded. Its guest, whose ld.so cannot load an
 * agent of another machine, must not find it in its environment, which is qemu's.
 *
 * The recorder says in words what this leaves out.
 */
#include "agent/agent.h"

#include "base/text.h"
#include "os/os.h"
#include "record/writer.h"

/* What follows PREFIX in TEXT; NULL when that does not begin with it. */
/* They are named qemu-MACHINE, with -static behind it or not. */
bool emulator_is_this(void) {
  static const char *const machines[] = {"aarch64",   "alpha", "arm",   "hppa",  "i386",
                                         "loongarch", "m68k",  "mips",  "ppc",   "riscv",
                                         "s390x",     "sh4",   "sparc", "x86_64"};
  char path[4096];
  ssize_t n = os_program_path(path, sizeof path - 1);
  if (n <= 0) return false;
  path[n] = 0;
  const char *name = text_after(text_base_name(path), "qemu-");
  for (uint32_t i = 0; name && i < ARRAY_COUNT(machines); i++)
    if (text_after(name, machines[i])) return true;
  return false;
}

bool emulator_is_next(char *const *environment) {
  return environment_has(environment, "VALGRIND_LAUNCHER");
}

void emulator_tell(const char *name) {
  if (agent_in_recorded_process()) *text_append(writer_control()->emulator, name ? name : "") = 0;
}
