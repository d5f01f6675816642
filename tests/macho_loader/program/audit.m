/* SPDX-License-Identifier: MIT
 *
 * A program that audits itself for Apple's required-reason functions and methods. What the
 * recordings say is checked by who reads them (run.py), against what is called here: the texts tell
 * the calls apart.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <objc/runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sonde/audit.h"
#include "sonde/malloc.h"
#include "victim.h"

extern uint64_t mach_absolute_time(void);

__attribute__((objc_root_class))
@interface NSUserDefaults {
  Class isa;
}
@end
@implementation NSUserDefaults
+ (long)standard {
  return 11;
}
- (long)read:(long)key {
  return key * 2;
}
- (double)weigh:(double)a
              b:(double)b
              c:(double)c
              d:(double)d
              e:(double)e
              f:(double)f
              g:(double)g
              h:(double)h {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
@end

/* What it inherits is told by the class that has it. */
@interface OwnDefaults : NSUserDefaults
@end
@implementation OwnDefaults
- (long)read:(long)key {
  return [super read:key] + 1;
}
@end

__attribute__((objc_root_class))
@interface UITextInputMode {
  Class isa;
}
@end
@implementation UITextInputMode
+ (long)activeInputModes {
  return 5;
}
+ (long)other {
  return 6;
}
@end

static char policy[1 << 16] __attribute__((aligned(8)));
static long policy_size;
static struct stat status;

static bool read_policy(const char *path) {
  int fd = open(path, O_RDONLY);
  policy_size = fd < 0 ? -1 : read(fd, policy, sizeof policy);
  close(fd);
  return policy_size > 0;
}

static void check_refusals(const char *path) {
  check(sonde_audit_stop() == SONDE_ENOTFOUND, "there is no audit at first");
  check(sonde_audit_start("this is no policy, of whatever length it may be", 47, path) ==
            SONDE_EINVAL,
        "what is no policy is refused");
  check(sonde_audit_start(policy, 40, path) == SONDE_EINVAL, "and a part of one");
}

/* The path lies in an image, on the stack, in a block, nowhere. */
__attribute__((noinline)) static bool ask_for_files(const char *own_file) {
  char on_stack[] = "/on/the/stack", *block = malloc(64);
  struct statfs disk;
  memcpy(block, own_file, strlen(own_file) + 1);
  int fd = open(own_file, O_RDONLY);
  bool good = stat("/constant", &status) == -1 && lstat(on_stack, &status) == -1 &&
              lstat(block, &status) == 0 && fstat(fd, &status) == 0 && status.st_size > 0 &&
              statfs("/", &disk) == 0 && disk.f_blocks > 0;
  errno = 0;
  good &= stat((const char *)16, &status) == -1 && errno == EFAULT;
  close(fd);
  free(block);
  return good;
}

__attribute__((noinline)) static bool ask_for_time(void) {
  uint64_t last = 0, now = 0;
  for (int i = 0; i < 1000; i++, last = now)
    if ((now = mach_absolute_time()) < last) return false;
  return true;
}

static bool numbers_arrive(NSUserDefaults *defaults) {
  return victim_weigh(1, 2, 3, 4, 5, 6, 7, 8, "A") == 204 + 'A' && [defaults weigh:1
                                                                                 b:2
                                                                                 c:3
                                                                                 d:4
                                                                                 e:5
                                                                                 f:6
                                                                                 g:7
                                                                                 h:8] == 204;
}

__attribute__((noinline)) static bool send_messages(void) {
  OwnDefaults *own = class_createInstance(objc_lookUpClass("OwnDefaults"), 0);
  NSUserDefaults *volatile none = nil;
  bool good = [NSUserDefaults standard] == 11 && [none read:1] == 0 && numbers_arrive(own);
  for (int i = 0; i < 20; i++)
    good &= [own read:i] == 2 * i + 1;
  return good && [UITextInputMode activeInputModes] == 5 && [UITextInputMode other] == 6;
}

static void *ask_often(void *path) {
  struct stat st;
  for (int i = 0; i < 500; i++)
    (void)lstat(path, &st);
  return NULL;
}

static void check_threads_ask(void) {
  pthread_t threads[3];
  void *result;
  for (int i = 0; i < 3; i++)
    pthread_create(&threads[i], NULL, ask_often, (void *)"/by/a/thread");
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], &result);
}

static void check_child(void) {
  pid_t child = fork();
  if (child == 0) {
    (void)stat("/in/a/child", &status);
    _exit(0);
  }
  int ended = -1;
  check(child > 0 && waitpid(child, &ended, 0) == child && ended == 0, "a child goes on unaudited");
}

static void check_first(const char *path, const char *own_file, const char *late) {
  (void)stat("/before", &status);
  check(sonde_audit_start(policy, (size_t)policy_size, path) == SONDE_OK, "an audit begins");
  check(sonde_audit_start(policy, (size_t)policy_size, path) == SONDE_EBUSY, "once");
  check(sonde_malloc_log_start(path, SONDE_MALLOC_BLOCKS) == SONDE_EBUSY,
        "its recording is its own");
  check(ask_for_files(own_file), "files are asked for, from everywhere");
  check(victim_stat("/by/a/library") == -1, "by a library");
  errno = ENOTDIR;
  check(ask_for_time() && errno == ENOTDIR, "the time is asked for, and errno stays");
  check(send_messages(), "messages, with what they carry");
  check_threads_ask();
  check_child();
  check(sonde_audit_phase("consent") == SONDE_OK, "a phase begins");
  check(dlopen(late, RTLD_NOW) != NULL, "a library comes later");
  check(sonde_audit_stop() == SONDE_OK, "the audit ends");
  (void)stat("/after", &status);
  check(send_messages() && sonde_audit_stop() == SONDE_ENOTFOUND,
        "what comes after is not audited");
}

void check_audit(const char *policy_path, const char *folder, const char *late) {
  static char path[2][1024];
  for (int i = 0; i < 2; i++) {
    snprintf(path[i], sizeof path[i], "%s/audit%d.sonde", folder, i);
    unlink(path[i]);
  }
  check(read_policy(policy_path), "a policy is read");
  check_refusals(path[0]);
  check_first(path[0], policy_path, late);
  check(sonde_audit_start(policy, (size_t)policy_size, path[1]) == SONDE_OK, "another one begins");
  check(victim_stat("/again") == -1 && send_messages() && sonde_audit_stop() == SONDE_OK,
        "and ends");
}
