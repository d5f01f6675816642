/* SPDX-License-Identifier: MIT
 *
 * Hooks by name: in the program, in a library that is there, in its data, in a library that comes
 * later, before its constructor; in chains; and all of it undone.
 */
#include <dlfcn.h>
#include <mach/mach.h>
#include <mach/vm_map.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "sonde/hook.h"
#include "victim.h"

static int calls, second_calls;
static pid_t (*next_getpid)(void), (*second_next)(void);
/* Not known to the compiler: the pointer stays in data. */
pid_t (*volatile in_data)(void) = getpid;

static pid_t count_getpid(void) {
  calls++;
  return next_getpid();
}

static pid_t count_again(void) {
  second_calls++;
  return second_next();
}

static int hooked_slots, other_slots, const_slots_writable;

static int protection_of(uintptr_t address) {
  vm_address_t at = address;
  vm_size_t size = 0;
  vm_region_basic_info_data_64_t info;
  mach_msg_type_number_t count = VM_REGION_BASIC_INFO_COUNT_64;
  mach_port_t object = MACH_PORT_NULL;
  kern_return_t result = vm_region_64(mach_task_self(), &at, &size, VM_REGION_BASIC_INFO_64,
                                      (vm_region_info_t)&info, &count, &object);
  return result == KERN_SUCCESS ? info.protection : -1;
}

/* Calls go through constant data, but for lazily bound ones. */
static int note(const sonde_slot_t *slot, void *context) {
  (void)context;
  if (slot->kind == SONDE_SLOT_GLOB_DAT && (protection_of(slot->address) & VM_PROT_WRITE))
    const_slots_writable++;
  if (slot->state == SONDE_SLOT_HOOKED)
    hooked_slots++;
  else if (slot->kind != SONDE_SLOT_NONE)
    other_slots++;
  return 0;
}

/* How many of these calls are counted. */
static int counted(int (*call)(void)) {
  int before = calls;
  pid_t pid = (pid_t)call();
  return pid > 0 ? calls - before : -1;
}

static int call_direct(void) { return getpid(); }
static int call_by_data(void) { return in_data(); }

static void check_late(const char *path) {
  void *late = dlopen(path, RTLD_NOW);
  check(late != NULL, "a library is loaded later");
  if (!late) return;
  int *from_constructor = (int *)dlsym(late, "late_constructor_pid");
  int (*call)(void) = (int (*)(void))dlsym(late, "late_call");
  int before = calls;
  check(from_constructor && *from_constructor == getpid(), "its constructor ran");
  check(before >= 1, "and its call was hooked");
  calls = 0;
  check(call && counted(call) == 1, "a call of the late library is hooked");
  check(sonde_hook_late() == SONDE_OK, "late images are hooked by themselves");
  check(dlclose(late) == 0, "it is unloaded");
}

/* dlsym answers with the hook, but to who asks for the next definition: a wrapper, to which the
 * hook goes on. */
static void check_dlsym(bool is_hooked) {
  void *hook = (void *)count_getpid;
  void *anywhere = dlsym(RTLD_DEFAULT, "getpid"), *next = dlsym(RTLD_NEXT, "getpid");
  check((anywhere == hook) == is_hooked && anywhere,
        "dlsym answers with the hook, while there is one");
  check(next && next != hook && next == victim_next("getpid"),
        "RTLD_NEXT with the function itself");
  check(dlsym(RTLD_SELF, "check_hooks") == (void *)check_hooks, "RTLD_SELF begins at its caller");
  check(!dlsym(RTLD_NEXT, "check_hooks"), "RTLD_NEXT behind it");
  check(!dlsym(RTLD_DEFAULT, "no_such_function"), "what is nowhere is not found");
}

void check_hooks(const char *late) {
  check_dlsym(false);
  sonde_hook_request_t request = {
      .symbol = "getpid", .replacement = (void *)count_getpid, .original = (void **)&next_getpid};
  sonde_hook_t *hook = NULL, *second = NULL;
  int before = protection_of((uintptr_t)&in_data);
  check(sonde_hook_add(&request, 1, &hook) == SONDE_OK && hook, "a hook by name");
  check(counted(call_direct) == 1, "a call of the program is hooked");
  check(counted(call_by_data) == 1, "a pointer in data is hooked");
  check(counted(victim_call) == 1, "a call of a library is hooked");
  check(victim_pointer() == (int (*)(void))count_getpid, "an address that is taken is the hook's");
  int slots = sonde_hook_reach(hook, note, NULL);
  check(slots >= 3 && hooked_slots == slots && other_slots == 0, "its slots are told");
  check(protection_of((uintptr_t)&in_data) == before, "data is as writable as it was");
  check(const_slots_writable == 0, "constant data is read-only again");
  check_dlsym(true);
  calls = 0;
  check_late(late);
  request = (sonde_hook_request_t){
      .symbol = "getpid", .replacement = (void *)count_again, .original = (void **)&second_next};
  check(sonde_hook_add(&request, 1, &second) == SONDE_OK, "a second hook of the same function");
  check(counted(call_direct) == 1 && second_calls == 1, "both are called");
  check(sonde_hook_remove(hook) == SONDE_OK, "the first goes");
  check(counted(call_direct) == 0 && second_calls == 2, "the second is called on");
  check(sonde_hook_remove(second) == SONDE_OK, "the second goes");
  check(counted(call_direct) == 0 && counted(call_by_data) == 0 && counted(victim_call) == 0 &&
            second_calls == 2,
        "no call is hooked any more");
  check_dlsym(false);
  request.symbol = "no_such_function";
  check(sonde_hook_add(&request, 1, &second) == SONDE_ENOTFOUND, "what is nowhere is not hooked");
}
