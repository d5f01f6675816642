/* SPDX-License-Identifier: MIT
 *
 * The stand-ins that a whole command asks for beside those of posix.c: text, files and folders,
 * stdio, locks of the kinds that a library makes. The same rules hold: glibc's function where the
 * interface is the same, a wrapper where it is not.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <pthread.h>
#include <search.h>
#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "loader.h"

/* ---- characters ------------------------------------------------------------------------------ */

/* Apple's headers look into this table of the locale by themselves. */
static uint8_t rune_locale[FACT_sizeof_RuneLocale] __attribute__((aligned(16)));

__attribute__((constructor)) static void fill_rune_locale(void) {
  for (int c = 0; c < 128; c++) {
    uint32_t type = 0;
    int lower = c, upper = c;
    bool is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z';
    bool is_digit = c >= '0' && c <= '9', is_space = c == ' ' || (c >= '\t' && c <= '\r');
    if (is_upper) type |= FACT__CTYPE_U | FACT__CTYPE_A, lower = c + 32;
    if (is_lower) type |= FACT__CTYPE_L | FACT__CTYPE_A, upper = c - 32;
    if (is_digit) type |= FACT__CTYPE_D | (uint32_t)(c - '0');
    if (is_digit || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f')) type |= FACT__CTYPE_X;
    if (is_space) type |= FACT__CTYPE_S;
    if (c == ' ' || c == '\t') type |= FACT__CTYPE_B;
    if (c < 32 || c == 127) type |= FACT__CTYPE_C;
    if (c >= 32 && c < 127) type |= FACT__CTYPE_R;
    if (c > 32 && c < 127) type |= FACT__CTYPE_G;
    if (c > 32 && c < 127 && !is_upper && !is_lower && !is_digit) type |= FACT__CTYPE_P;
    memcpy(rune_locale + FACT_runes_type + 4 * c, &type, 4);
    memcpy(rune_locale + FACT_runes_lower + 4 * c, &lower, 4);
    memcpy(rune_locale + FACT_runes_upper + 4 * c, &upper, 4);
  }
}

/* For what is no ASCII, which the C locale has no classes for. */
static int mac_maskrune(int c, unsigned long mask) {
  (void)c, (void)mask;
  return 0;
}
static int mac_tolower(int c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }
static int mac_toupper(int c) { return c >= 'a' && c <= 'z' ? c - 32 : c; }

static void mac_memset_pattern16(char *out, const char *pattern, size_t size) {
  for (size_t i = 0; i < size; i++)
    out[i] = pattern[i & 15];
}

static void mac_assert(const char *function, const char *file, int line, const char *text) {
  die("assertion '%s' of %s fails, %s:%d", text, function ? function : "?", file, line);
}

static void stack_smashed(void) { die("a stack is smashed"); }
static const uint64_t stack_guard = UINT64_C(0x9d1c3b5a00ff0a0d);

/* ---- order ----------------------------------------------------------------------------------- */

typedef struct bsd_order {
  int (*compare)(void *, const void *, const void *);
  void *context;
} bsd_order_t;

static int bsd_compare(const void *left, const void *right, void *order) {
  const bsd_order_t *o = order;
  return o->compare(o->context, left, right);
}

static void mac_qsort_r(void *base, size_t count, size_t size, void *context,
                        int (*compare)(void *, const void *, const void *)) {
  qsort_r(base, count, size, bsd_compare, &(bsd_order_t){compare, context});
}

static int mac_fnmatch(const char *glob, const char *text, int flags) {
  if (flags) die("fnmatch with the flags %#x", flags);
  return fnmatch(glob, text, 0);
}

/* ---- files and folders ----------------------------------------------------------------------- */

static int folder_of(int fd) { return fd == (int)FACT_AT_FDCWD ? AT_FDCWD : fd; }

int mac_openat(int folder, const char *path, int flags, int mode);
int mac_openat(int folder, const char *path, int flags, int mode) {
  return openat(folder_of(folder), path, mac_open_flags(flags), mode & 07777);
}

static int mac_fstatat(int folder, const char *path, uint8_t *out, int flags) {
  struct stat st;
  if (flags & ~(int)FACT_AT_SYMLINK_NOFOLLOW) die("fstatat with the flags %#x", flags);
  if (fstatat(folder_of(folder), path, &st, flags ? AT_SYMLINK_NOFOLLOW : 0) != 0) return -1;
  mac_put_stat(&st, out);
  return 0;
}

/* Programs ask only for the size of a terminal. None runs on one here. */
static int mac_ioctl(int fd) {
  if (isatty(fd)) die("ioctl of a terminal");
  errno = ENOTTY;
  return -1;
}

static int mac_unlinkat(int folder, const char *path, int flags) {
  if (flags) die("unlinkat with the flags %#x", flags);
  return unlinkat(folder_of(folder), path, 0);
}

static int mac_renameat(int from, const char *old, int to, const char *new) {
  return renameat(folder_of(from), old, folder_of(to), new);
}

static int mac_utimensat(int folder, const char *path, const struct timespec *times, int flags) {
  if (times || flags) die("utimensat with times or flags");
  return utimensat(folder_of(folder), path, NULL, 0);
}

static uint8_t *mac_readdir(DIR *folder) {
  static __thread uint8_t out[FACT_sizeof_dirent];
  const struct dirent *file = readdir(folder);
  if (!file) return NULL;
  uint16_t length = (uint16_t)strlen(file->d_name);
  memset(out, 0, sizeof out);
  memcpy(out + FACT_dirent_name, file->d_name, length + 1u);
  memcpy(out + FACT_dirent_namlen, &length, sizeof length);
  out[FACT_dirent_type] = file->d_type; /* DT_REG and the others are BSD's numbers on both */
  return out;
}

static int mac_alphasort(uint8_t **a, uint8_t **b) {
  return strcmp((char *)*a + FACT_dirent_name, (char *)*b + FACT_dirent_name);
}

static int by_name(const void *a, const void *b) {
  return mac_alphasort((uint8_t **)(uintptr_t)a, (uint8_t **)(uintptr_t)b);
}

/* Five texts of 256 bytes, of which the command reads none but the first and the last. */
static int mac_uname(char (*out)[256]) {
  memset(out, 0, 5 * sizeof *out);
  memcpy(out[0], "Darwin", sizeof "Darwin");
  return 0;
}

/* All entries in the order of their names, as alphasort wants them. */
static int mac_scandir(const char *path, uint8_t ***out, void *select, void *order) {
  if (select || !order) die("scandir with a selection or without an order");
  DIR *folder = opendir(path);
  int count = 0;
  if (!folder) return -1;
  *out = NULL;
  for (uint8_t *file; (file = mac_readdir(folder)); count++) {
    *out = realloc(*out, ((size_t)count + 1) * sizeof **out);
    (*out)[count] = memcpy(malloc(FACT_sizeof_dirent), file, FACT_sizeof_dirent);
  }
  closedir(folder);
  if (count) qsort(*out, (size_t)count, sizeof **out, by_name);
  return count;
}

static long mac_sysconf(int name) {
  if (name == (int)FACT__SC_NPROCESSORS_ONLN) return sysconf(_SC_NPROCESSORS_ONLN);
  if (name == (int)FACT__SC_PAGESIZE) return 16384;
  die("sysconf %d", name);
}

static int mac_clock_gettime(int clock, struct timespec *out) {
  if (clock == (int)FACT_CLOCK_REALTIME) return clock_gettime(CLOCK_REALTIME, out);
  if (clock == (int)FACT_CLOCK_MONOTONIC) return clock_gettime(CLOCK_MONOTONIC, out);
  die("clock %d", clock);
}

static int mac_madvise(void *at, size_t size, int advice) {
  static const int map[][2] = {{FACT_MADV_NORMAL, MADV_NORMAL},
                               {FACT_MADV_RANDOM, MADV_RANDOM},
                               {FACT_MADV_SEQUENTIAL, MADV_SEQUENTIAL},
                               {FACT_MADV_WILLNEED, MADV_WILLNEED}};
  for (unsigned i = 0; i < sizeof map / sizeof *map; i++)
    if (advice == map[i][0]) return madvise(at, size, map[i][1]);
  if (advice == (int)FACT_MADV_DONTNEED) return 0; /* a hint there: nothing is taken away */
  die("madvise %d", advice);
}

static const char *mac_inet_ntop(int family, const void *address, char *out, socklen_t size) {
  if (family == (int)FACT_AF_INET6) return inet_ntop(AF_INET6, address, out, size);
  if (family == (int)FACT_AF_INET) return inet_ntop(AF_INET, address, out, size);
  die("inet_ntop of the family %d", family);
}

/* ---- locks made at run time: glibc's, where Apple's are larger ------------------------------- */

_Static_assert(sizeof(pthread_rwlock_t) <= FACT_sizeof_rwlock, "glibc's lock fits");

static int mac_mutex_init(uint64_t *mutex, const void *attributes) {
  if (attributes) die("a mutex with attributes");
  memset(mutex, 0, FACT_sizeof_mutex);
  *mutex = MUTEX_SIGNATURE;
  return 0;
}
static int mac_mutex_destroy(uint64_t *mutex) {
  if (*mutex != MUTEX_SIGNATURE) die("a mutex was not initialised");
  return 0;
}
static int mac_rwlock_init(pthread_rwlock_t *lock, const void *attributes) {
  if (attributes) die("a lock with attributes");
  return pthread_rwlock_init(lock, NULL);
}

/* Its first word is a signature, until what is done once is done. */
static int mac_pthread_once(uint64_t *once, void (*run)(void)) {
  static pthread_mutex_t one_at_a_time = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
  pthread_mutex_lock(&one_at_a_time);
  bool is_first = *once != 0;
  *once = 0;
  if (is_first) run();
  pthread_mutex_unlock(&one_at_a_time);
  return 0;
}

/* ---- text with variadic arguments ------------------------------------------------------------ */

#if defined(__aarch64__)
#define LIST_OF(stack)                                                                             \
  va_list list;                                                                                    \
  mac_list(&list, stack)
#define mac_vfprintf  mac_fprintf
#define mac_vasprintf mac_asprintf
int mac_vfprintf(FILE *out, const char *format, void *stack);
int mac_vfprintf(FILE *out, const char *format, void *stack) {
  LIST_OF(stack);
  return vfprintf(out, format, list);
}
int mac_printf(const char *format, void *stack);
int mac_printf(const char *format, void *stack) { return mac_vfprintf(stdout, format, stack); }
int mac_sprintf(char *out, const char *format, void *stack);
int mac_sprintf(char *out, const char *format, void *stack) {
  LIST_OF(stack);
  return vsprintf(out, format, list);
}
int mac_sprintf_chk(char *out, int flag, size_t size, const char *format, void *stack);
int mac_sprintf_chk(char *out, int flag, size_t size, const char *format, void *stack) {
  (void)flag;
  int length = mac_snprintf(out, size, format, stack);
  if ((size_t)length >= size) die("sprintf overruns %zu bytes", size);
  return length;
}
int mac_vasprintf(char **out, const char *format, void *stack);
int mac_vasprintf(char **out, const char *format, void *stack) {
  LIST_OF(stack);
  return vasprintf(out, format, list);
}
int mac_sscanf(const char *text, const char *format, void *stack);
int mac_sscanf(const char *text, const char *format, void *stack) {
  LIST_OF(stack);
  return vsscanf(text, format, list);
}
#define mac_vsnprintf mac_snprintf
void printf_entry(void), fprintf_entry(void), sprintf_entry(void), sprintf_chk_entry(void),
    asprintf_entry(void), sscanf_entry(void), openat_entry(void);
#else
int __sprintf_chk(char *out, int flag, size_t size, const char *format, ...);
#define mac_vfprintf      vfprintf
#define mac_vasprintf     vasprintf
#define mac_vsnprintf     vsnprintf
#define printf_entry      printf
#define fprintf_entry     fprintf
#define sprintf_entry     sprintf
#define sprintf_chk_entry __sprintf_chk
#define asprintf_entry    asprintf
#define sscanf_entry      sscanf
#define openat_entry      mac_openat
#endif

void *__memcpy_chk(void *to, const void *from, size_t size, size_t room);
void *__memmove_chk(void *to, const void *from, size_t size, size_t room);
char *__strcat_chk(char *to, const char *from, size_t room);
char *__strncpy_chk(char *to, const char *from, size_t size, size_t room);

#define SAME(name) {"_" #name, name},
const stand_in_t libc_stand_ins[] = {
    {"__DefaultRuneLocale", rune_locale},
    {"___maskrune", mac_maskrune},
    {"___tolower", mac_tolower},
    {"___toupper", mac_toupper},
    {"_memset_pattern16", mac_memset_pattern16},
    {"___memcpy_chk", __memcpy_chk},
    {"___memmove_chk", __memmove_chk},
    {"___strcat_chk", __strcat_chk},
    {"___strncpy_chk", __strncpy_chk},
    {"___sprintf_chk", sprintf_chk_entry},
    {"___assert_rtn", mac_assert},
    {"___stack_chk_fail", stack_smashed},
    {"___stack_chk_guard", (void *)&stack_guard},
    {"___stderrp", &stderr},
    {"___stdoutp", &stdout},
    {"_qsort_r", mac_qsort_r},
    {"_fnmatch", mac_fnmatch},
    {"_openat", openat_entry},
    {"_fstatat", mac_fstatat},
    {"_ioctl", mac_ioctl},
    {"_unlinkat", mac_unlinkat},
    {"_renameat", mac_renameat},
    {"_utimensat", mac_utimensat},
    {"_readdir", mac_readdir},
    {"_scandir", mac_scandir},
    {"_uname", mac_uname},
    {"_getpid", getpid},
    {"_strcasestr", strcasestr},
    {"_strsep", strsep},
    {"_fgetc", fgetc},
    {"_exp", exp},
    {"_log", log},
    {"_log1p", log1p},
    {"_lgamma", lgamma},
    {"_alphasort", mac_alphasort},
    {"_sysconf", mac_sysconf},
    {"_clock_gettime", mac_clock_gettime},
    {"_madvise", mac_madvise},
    {"_inet_ntop", mac_inet_ntop},
    {"_pthread_mutex_init", mac_mutex_init},
    {"_pthread_mutex_destroy", mac_mutex_destroy},
    {"_pthread_rwlock_init", mac_rwlock_init},
    {"_pthread_once", mac_pthread_once},
    {"_printf", printf_entry},
    {"_fprintf", fprintf_entry},
    {"_sprintf", sprintf_entry},
    {"_asprintf", asprintf_entry},
    {"_sscanf", sscanf_entry},
    {"_vfprintf", mac_vfprintf},
    {"_vsnprintf", mac_vsnprintf},
    {"_vasprintf", mac_vasprintf},
    {"_setjmp", _setjmp},   /* without the signal mask, which nobody changes */
    {"_longjmp", _longjmp}, /* Apple's buffers are larger than what these two fill */
    {"_optarg", &optarg},
    {"_opterr", &opterr},
    {"_optind", &optind},
    {"_optopt", &optopt},
    {"_strtod", strtod},
    {"_expm1", expm1},
    SAME(getopt_long) SAME(pthread_rwlock_destroy) SAME(pthread_rwlock_rdlock)
        SAME(pthread_rwlock_tryrdlock) SAME(pthread_rwlock_unlock) SAME(pthread_rwlock_wrlock) SAME(
            access) SAME(closedir) SAME(dirfd) SAME(dup) SAME(fclose) SAME(fdopen) SAME(fdopendir)
            SAME(ferror) SAME(fflush) SAME(fgets) SAME(fileno) SAME(fopen) SAME(fputc) SAME(fputs)
                SAME(fread) SAME(fseeko) SAME(ftello) SAME(fwrite) SAME(getline) SAME(isatty) SAME(
                    lseek) SAME(mkdir) SAME(opendir) SAME(putchar) SAME(puts) SAME(realpath)
                    SAME(rename) SAME(atol) SAME(bsearch) SAME(getenv) SAME(geteuid) SAME(readlink)
                        SAME(qsort) SAME(strtol) SAME(strtoll) SAME(strtoul) SAME(strtoull)
                            SAME(tdelete) SAME(tfind) SAME(tsearch) SAME(memccpy) SAME(stpcpy)
                                SAME(strcpy) SAME(strcspn) SAME(strdup) SAME(strerror)
                                    SAME(strncasecmp) SAME(strndup) SAME(strnlen) SAME(strpbrk)
                                        SAME(strspn) SAME(gmtime_r) SAME(localtime_r) SAME(strftime)
                                            SAME(time) SAME(timegm) SAME(mktime) SAME(strptime)
                                                SAME(atof) SAME(memmem) SAME(strncpy){
                                                    "_memchr",
                                                    (void *(*)(const void *, int, size_t))memchr},
    {"_strchr", (char *(*)(const char *, int))strchr},
    {NULL, NULL},
};
