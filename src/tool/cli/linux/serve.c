/* SPDX-License-Identifier: MIT
 *
 * HTTP/1.1 as far as a browser needs it for one file: GET, HEAD, and the OPTIONS request that
 * precedes a request of another origin (https://fetch.spec.whatwg.org/#http-cors-protocol).
 *
 * A request must name this server in Host. Otherwise a foreign site could reach the server under
 * its own name (DNS rebinding). A request with another Origin is refused.
 */
#include "cli/linux/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  CONNECTIONS = 8,
  HEAD_MAX = 4096,
  ANSWER_MAX = 1024,
  HEAD_MS = 10 * 1000,
  PROGRESS_MS = 60 * 1000,
  POLL_MS = 1000,
};

typedef struct connection {
  int fd; /* -1: none */
  char head[HEAD_MAX];
  size_t used;
  char answer[ANSWER_MAX];
  size_t answer_size, sent; /* of the answer; 0: the head is not complete */
  off_t at, end;            /* of the file: what is still to send */
  int64_t deadline_ms;
} connection_t;

static connection_t connections[CONNECTIONS];

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* ---- requests ------------------------------------------------------------------------------ */

/* The value of the header NAME, up to the end of its line; NULL: the head has none. */
static const char *header(const char *head, const char *name, size_t *size) {
  size_t n = strlen(name);
  for (const char *line = strstr(head, "\r\n"); line; line = strstr(line, "\r\n")) {
    line += 2;
    if (strncasecmp(line, name, n) != 0 || line[n] != ':') continue;
    line += n + 1;
    line += strspn(line, " \t");
    *size = strcspn(line, "\r");
    while (*size && (line[*size - 1] == ' ' || line[*size - 1] == '\t'))
      --*size;
    return line;
  }
  return NULL;
}

static bool is_text(const char *value, size_t size, const char *text) {
  return strlen(text) == size && memcmp(value, text, size) == 0;
}

static bool is_from_here(const serve_t *s, const char *head) {
  size_t size;
  const char *value = header(head, "Host", &size);
  if (!value || !is_text(value, size, s->host)) return false;
  value = header(head, "Origin", &size);
  return !value || is_text(value, size, s->origin);
}

/* The status line's code and text. */
static const char *verdict(const serve_t *s, const char *head) {
  static const char *const methods[] = {"GET ", "HEAD ", "OPTIONS "};
  size_t n = 0;
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (!strncmp(head, methods[i], strlen(methods[i]))) n = strlen(methods[i]);
  if (!n) return "405 Method Not Allowed";
  if (!is_from_here(s, head)) return "403 Forbidden";
  if (!is_text(head + n, strcspn(head + n, " \r"), s->path)) return "404 Not Found";
  return *head == 'O' ? "204 No Content" : "200 OK";
}

static void answer(const serve_t *s, connection_t *c) {
  struct stat file;
  const char *status = verdict(s, c->head);
  char about[256] = "Content-Length: 0\r\n";
  if (*status == '2' && c->head[0] != 'O' && fstat(s->file, &file) == 0) {
    snprintf(about, sizeof about, "Content-Type: application/json\r\nContent-Length: %jd\r\n%s",
             (intmax_t)file.st_size, s->is_gzip ? "Content-Encoding: gzip\r\n" : "");
    if (c->head[0] == 'G') c->end = file.st_size;
  } else if (*status == '2') {
    snprintf(about, sizeof about,
             "Access-Control-Allow-Methods: GET, HEAD\r\n"
             "Access-Control-Allow-Private-Network: true\r\n");
  }
  int size = snprintf(c->answer, sizeof c->answer,
                      "HTTP/1.1 %s\r\n%s"
                      "Access-Control-Allow-Origin: %s\r\n"
                      "Cross-Origin-Resource-Policy: cross-origin\r\n"
                      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                      "Connection: close\r\n\r\n",
                      status, about, s->origin);
  c->answer_size = (size_t)size;
}

/* ---- connections --------------------------------------------------------------------------- */

static void end_connection(connection_t *c) {
  close(c->fd);
  c->fd = -1;
}

/* False: the connection is at its end. */
static bool receive(const serve_t *s, connection_t *c) {
  ssize_t n = recv(c->fd, c->head + c->used, HEAD_MAX - 1 - c->used, 0);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  c->used += (size_t)n;
  c->head[c->used] = 0;
  if (strstr(c->head, "\r\n\r\n")) {
    answer(s, c);
    c->deadline_ms = now_ms() + PROGRESS_MS;
    return true;
  }
  return c->used < HEAD_MAX - 1 && !memchr(c->head, 0, c->used);
}

/* False: all is sent, or the connection is broken. */
static bool send_some(const serve_t *s, connection_t *c) {
  static char part[1 << 18];
  const char *from = c->answer + c->sent;
  size_t size = c->answer_size - c->sent;
  if (!size) {
    size = c->end - c->at < (off_t)sizeof part ? (size_t)(c->end - c->at) : sizeof part;
    ssize_t got = pread(s->file, part, size, c->at);
    if (got <= 0) return false;
    from = part;
    size = (size_t)got;
  }
  ssize_t n = send(c->fd, from, size, 0);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (c->sent < c->answer_size)
    c->sent += (size_t)n;
  else
    c->at += n;
  c->deadline_ms = now_ms() + PROGRESS_MS;
  return c->sent < c->answer_size || c->at < c->end;
}

static void accept_one(const serve_t *s) {
  int fd = accept(s->listener, NULL, NULL);
  if (fd < 0) return;
  for (size_t i = 0; i < CONNECTIONS; i++) {
    connection_t *c = &connections[i];
    if (c->fd >= 0) continue;
    memset(c, 0, sizeof *c);
    c->fd = fd;
    c->deadline_ms = now_ms() + HEAD_MS;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return;
  }
  close(fd);
}

/* Serves what is ready. True: there was a request. */
static bool serve_once(const serve_t *s) {
  struct pollfd fds[CONNECTIONS + 1];
  bool asked = false;
  for (size_t i = 0; i < CONNECTIONS; i++)
    fds[i] = (struct pollfd){.fd = connections[i].fd,
                             .events = connections[i].answer_size ? POLLOUT : POLLIN};
  fds[CONNECTIONS] = (struct pollfd){.fd = s->listener, .events = POLLIN};
  if (poll(fds, CONNECTIONS + 1, POLL_MS) < 0) return false;
  for (size_t i = 0; i < CONNECTIONS; i++) {
    connection_t *c = &connections[i];
    if (c->fd < 0) continue;
    bool good = now_ms() < c->deadline_ms;
    if (good && fds[i].revents) good = c->answer_size ? send_some(s, c) : receive(s, c);
    asked |= good && c->answer_size;
    if (!good) end_connection(c);
  }
  if (fds[CONNECTIONS].revents) accept_one(s);
  return asked;
}

void serve_run(serve_t *s, const volatile int *stop) {
  int64_t last_ms = now_ms();
  signal(SIGPIPE, SIG_IGN); /* a browser may close the connection while the file is sent */
  for (size_t i = 0; i < CONNECTIONS; i++)
    connections[i].fd = -1;
  while (!*stop && now_ms() - last_ms < SERVE_IDLE_MS)
    if (serve_once(s)) last_ms = now_ms();
  for (size_t i = 0; i < CONNECTIONS; i++)
    if (connections[i].fd >= 0) end_connection(&connections[i]);
  close(s->listener);
}

/* ---- the start ----------------------------------------------------------------------------- */

static bool make_path(serve_t *s) {
  uint8_t bytes[16];
  char word[2 * sizeof bytes + 1];
  if (getentropy(bytes, sizeof bytes) < 0) return false;
  for (size_t i = 0; i < sizeof bytes; i++)
    snprintf(word + 2 * i, 3, "%02x", bytes[i]);
  snprintf(s->path, sizeof s->path, "/%s/%s", word, s->name);
  return true;
}

bool serve_start(serve_t *s) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!make_path(s)) return false;
  s->listener = socket(AF_INET, SOCK_STREAM, 0);
  if (s->listener < 0) return false;
  fcntl(s->listener, F_SETFD, FD_CLOEXEC);
  fcntl(s->listener, F_SETFL, O_NONBLOCK);
  if (bind(s->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
      listen(s->listener, CONNECTIONS) < 0 ||
      getsockname(s->listener, (struct sockaddr *)&address, &size) < 0) {
    int error = errno;
    close(s->listener);
    errno = error;
    return false;
  }
  snprintf(s->host, sizeof s->host, "127.0.0.1:%u", ntohs(address.sin_port));
  snprintf(s->url, sizeof s->url, "http://%s%s", s->host, s->path);
  return true;
}
