/* SPDX-License-Identifier: MIT
 *
 * Both ends of the control socket.
 */
#define _GNU_SOURCE
#include "recorder/control.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/message.h"
#include "base/parse.h"
#include "record/settings.h"
#include "recorder/follow.h"
#include "sensor/sensor_table.h"

#define REPLY_MAX (1u << 20)

/* ---- address ------------------------------------------------------------------------------ */

/* UID is the user who records. Returns the length of the address. */
static socklen_t make_address(struct sockaddr_un *address, uid_t uid, pid_t pid) {
  struct stat space = {0};
  (void)stat("/proc/self/ns/pid", &space);
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "sonde/%u/%llu/%d",
                   (unsigned)uid, (unsigned long long)space.st_ino, (int)pid);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static bool get_peer(int fd, struct ucred *out) {
  socklen_t size = sizeof *out;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &size) == 0;
}

static void set_timeout(int fd, time_t seconds) {
  const struct timeval limit = {.tv_sec = seconds};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static bool send_all(int fd, const char *data, size_t size) {
  while (size) {
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= (size_t)n;
  }
  return true;
}

/* Sends TEXT and, unless it is negative, the descriptor PASSED with it (unix(7)). */
static bool send_first(int fd, const char *text, int passed) {
  union {
    struct cmsghdr head;
    char space[CMSG_SPACE(sizeof(int))];
  } control = {.head = {.cmsg_len = CMSG_LEN(sizeof passed),
                        .cmsg_level = SOL_SOCKET,
                        .cmsg_type = SCM_RIGHTS}};
  if (passed < 0) return send_all(fd, text, strlen(text));
  memcpy(CMSG_DATA(&control.head), &passed, sizeof passed);
  struct iovec data = {(void *)(uintptr_t)text, strlen(text)};
  const struct msghdr message = {
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* ---- serving ------------------------------------------------------------------------------ */

/* Random hexadecimal digits; "" without a source of them, and then nothing is served to others. */
static void make_token(char *out) {
  unsigned char bytes[(SHM_TOKEN_MAX - 1) / 2];
  bool good = getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes;
  for (size_t i = 0; i < (good ? sizeof bytes : 0); i++)
    snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void control_open(control_t *c, recording_t *recording, const char *path, pid_t pid) {
  *c = (control_t){.recording = recording, .path = path, .pid = pid, .passed = -1};
  make_token(c->token);
  struct sockaddr_un address;
  socklen_t size = make_address(&address, geteuid(), pid);
  c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (c->fd >= 0 && bind(c->fd, (struct sockaddr *)&address, size) == 0 && listen(c->fd, 8) == 0) {
    control_name(c, recording->control->recorder_name);
    strcpy(recording->control->token, c->token);
    return;
  }
  message_note("'sonde ctl' cannot control this recording: %s", strerror(errno));
  control_close(c);
}

void control_name(const control_t *c, char *out) {
  struct sockaddr_un address;
  if (c->listener) c = c->listener;
  (void)make_address(&address, geteuid(), c->pid);
  snprintf(out, CONTROL_NAME_MAX, "%.79s", c->fd < 0 ? "" : address.sun_path + 1);
}

void control_settings(const control_t *c, bool follow, char *out, size_t size) {
  char name[CONTROL_NAME_MAX];
  recording_settings(c->recording, out, size);
  if (c->fd < 0) return;
  control_name(c, name);
  size_t n = strlen(out);
  snprintf(out + n, size - n, ":%s:%s%s", name, c->token, follow ? ":follow" : "");
}

void control_close(control_t *c) {
  if (c->fd >= 0) close(c->fd);
  c->fd = -1;
}

typedef struct command {
  const char *name;
  int argument;
  control_command_t *run;
} command_t;

static const command_t commands[] = {
#define CONTROL_ENTRY(name, argument) {#name, argument, control_##name},
    CONTROL_TABLE(CONTROL_ENTRY)
#undef CONTROL_ENTRY
};

/* Executes LINE and writes its reply. */
static bool run(control_t *c, char *line, FILE *reply) {
  size_t length = strcspn(line, "= ");
  char separator = line[length];
  line[length] = 0;
  const char *argument = separator ? line + length + 1 : "";
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    const command_t *command = &commands[i];
    if (strcmp(line, command->name)) continue;
    static const char wanted[] = {0, '=', ' '};
    if (separator == wanted[command->argument] && (!separator || *argument))
      return command->run(c, argument, reply);
    fprintf(reply, command->argument ? "'%s' takes a value: '%s%c…'" : "'%s' takes no value", line,
            line, wanted[command->argument]);
    return false;
  }
  fprintf(reply, "unknown command '%s'; see 'sonde help ctl'", line);
  return false;
}

static void send_reply(control_t *c, int fd, char *line) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return;
  c->passed = -1;
  bool good = run(c, line, out);
  fclose(out);
  const char *first = good ? "ok\n" : "error ";
  if (text && send_first(fd, first, c->passed)) (void)send_all(fd, text, size);
  free(text);
}

/* The request in LINE after "token TOKEN ", where *C is set to the recording with this token: its
 * own or that of a child. NULL: there is no token, or another one. */
static char *after_token(control_t **c, char *line) {
  static const char word[] = "token ";
  if (strncmp(line, word, strlen(word)) != 0) return NULL;
  char *token = line + strlen(word), *end = strchr(token, ' ');
  if (!end || end == token) return NULL;
  *end = 0;
  if (strcmp(token, (*c)->token) != 0) *c = (*c)->follow ? follow_find((*c)->follow, token) : NULL;
  return *c ? end + 1 : NULL;
}

/* The recorder's user and root are served; another user's process is if it knows the token. */
static void serve_line(control_t *c, int fd, char *line, const struct ucred *who) {
  control_t *served = c;
  char *request = after_token(&served, line);
  if (!request && (who->uid != geteuid() && who->uid != 0)) return;
  if (!request) served = c;
  served->client_pid = who->pid;
  send_reply(served, fd, request ? request : line);
}

void control_serve(control_t *c) { control_serve_on(c, c->fd); }

void control_serve_on(control_t *c, int listening_fd) {
  struct ucred who = {0};
  int fd = accept4(listening_fd, NULL, NULL, SOCK_CLOEXEC);
  if (fd < 0) return;
  set_timeout(fd, 1);
  char line[CONTROL_LINE_MAX + 1];
  size_t n = 0;
  bool known = get_peer(fd, &who);
  while (known && n < CONTROL_LINE_MAX && !memchr(line, '\n', n)) {
    ssize_t r = recv(fd, line + n, CONTROL_LINE_MAX - n, 0);
    if (r <= 0) break;
    n += (size_t)r;
  }
  char *end = known ? memchr(line, '\n', n) : NULL;
  if (end) {
    *end = 0;
    if (!memchr(line, 0, (size_t)(end - line))) serve_line(c, fd, line, &who);
  }
  close(fd);
}

/* ---- client ------------------------------------------------------------------------------- */

static int read_reply(int fd, char **out) {
  size_t size = 0, capacity = 4096;
  char *text = malloc(capacity);
  for (ssize_t n; text; size += (size_t)n) {
    if (size + 1 >= capacity && capacity < REPLY_MAX) {
      char *grown = realloc(text, capacity *= 4);
      if (!grown) break;
      text = grown;
    }
    n = recv(fd, text + size, capacity - 1 - size, 0);
    if (n < 0 && errno == EINTR)
      n = 0;
    else if (n <= 0)
      break;
  }
  if (!text) return -ENOMEM;
  text[size] = 0;
  *out = text;
  return size ? 0 : -EPIPE;
}

/* Connects to the recorder of PID that the user UID runs. */
static int connect_to(uid_t uid, pid_t pid) {
  struct sockaddr_un address;
  struct ucred who;
  socklen_t size = make_address(&address, uid, pid);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -errno;
  int status = 0;
  if (connect(fd, (struct sockaddr *)&address, size) < 0)
    status = errno == ECONNREFUSED || errno == ENOENT ? -ESRCH : -errno;
  else if (!get_peer(fd, &who) || (who.uid != uid && who.uid != 0))
    status = -EACCES;
  if (status == 0) return fd;
  close(fd);
  return status;
}

/* For root, the user of the program, who usually records it. */
static uid_t owner_of(pid_t pid) {
  char path[32];
  struct stat s;
  snprintf(path, sizeof path, "/proc/%d", (int)pid);
  return geteuid() == 0 && stat(path, &s) == 0 ? s.st_uid : geteuid();
}

int control_request(pid_t pid, const char *line, char **reply, bool *failed) {
  int fd = connect_to(owner_of(pid), pid);
  if (fd == -ESRCH && geteuid() == 0) fd = connect_to(0, pid);
  if (fd < 0) return fd;
  char *text = NULL;
  int status = -EPIPE;
  if (send_all(fd, line, strlen(line)) && send_all(fd, "\n", 1)) status = read_reply(fd, &text);
  close(fd);
  if (status < 0) {
    free(text);
    return status;
  }
  *failed = strncmp(text, "ok\n", 3) != 0;
  size_t skip = !*failed ? 3 : strncmp(text, "error ", 6) ? 0 : 6;
  memmove(text, text + skip, strlen(text + skip) + 1);
  *reply = text;
  return 0;
}

int control_print_error(pid_t pid, int status) {
  if (status != -ESRCH) return message_fail("process %d: %s", (int)pid, strerror(-status));
  if (kill(pid, 0) == 0)
    return message_fail("process %d is not being recorded (give the program's PID, not sonde's)",
                        (int)pid);
  if (errno == EPERM)
    return message_fail("process %d belongs to another user; run sonde as that user or as root",
                        (int)pid);
  return message_fail("no process %d", (int)pid);
}

/* ---- modes as text ------------------------------------------------------------------------ */

static const struct {
  const char *name;
  uint32_t mode;
} modes[] = {
#define MODE_ENTRY(mode, name, bits) {name, bits},
    SENSOR_MALLOC_MODES(MODE_ENTRY)
#undef MODE_ENTRY
};

bool control_parse_malloc(const char *text, uint32_t *mode, uint64_t *sample_bytes) {
  if (!strncmp(text, "sample:", 7)) {
    *mode = RECORD_SAMPLED_BLOCKS;
    return parse_size(text + 7, sample_bytes);
  }
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (!strcmp(text, modes[i].name)) {
      *mode = modes[i].mode;
      return true;
    }
  return false;
}

const char *control_malloc_text(uint32_t mode, uint64_t sample_bytes, char *text) {
  mode &= SENSOR_MODE_malloc;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (mode == modes[i].mode) return modes[i].name;
  snprintf(text, 40, "sample:%llu", (unsigned long long)sample_bytes);
  return text;
}
