/* SPDX-License-Identifier: MIT */
#include "record/settings.h"

#include <errno.h>

#include "base/text.h"

/* The longest request with its token and newline. */
#define LINE_MAX 4608u

static bool read_number(const char **text, uint32_t *value) {
  if (**text < '0' || **text > '9') return false;
  *value = (uint32_t)decimal_read(text);
  *text += **text == ':';
  return true;
}

/* Copies the text up to the next colon to OUT, of ROOM bytes. */
static bool read_word(const char **text, char *out, uint32_t room) {
  uint32_t n = 0;
  for (; **text && **text != ':'; ++*text) {
    if (n + 1 == room) return false;
    out[n++] = **text;
  }
  out[n] = 0;
  *text += **text == ':';
  return true;
}

bool settings_read(const char *text, settings_t *out) {
  *out = (settings_t){0};
  if (!read_number(&text, &out->recorder_pid) || !read_number(&text, &out->shm_fd) ||
      !read_number(&text, &out->file_fd))
    return false;
  if (!read_number(&text, &out->pid)) return true;
  bool good = read_word(&text, out->socket, sizeof out->socket) &&
              read_word(&text, out->token, sizeof out->token);
  out->follow = good && text_equal(text, "follow");
  return good;
}

/* "token TOKEN REQUEST" and a newline. */
static bool make_line(char *line, size_t size, const char *token, const char *request) {
  if (text_length(request) + SHM_TOKEN_MAX + 16 > size) return false;
  char *p = line;
  if (*token) p = text_append(text_append(text_append(p, "token "), token), " ");
  p = text_append(text_append(p, request), "\n");
  *p = 0;
  return true;
}

ssize_t settings_request_long(const char *socket, const char *token, const char *request,
                              char *answer, size_t size, uint32_t patience_s) {
  char line[LINE_MAX];
  if (!*socket || !make_line(line, sizeof line, token, request)) return -EINVAL;
  return os_socket_request(socket, line, answer, size, patience_s);
}

ssize_t settings_request(const char *socket, const char *token, const char *request, char *answer,
                         size_t size) {
  return settings_request_long(socket, token, request, answer, size, 2);
}

int settings_descriptor(const char *socket, const char *token, uint32_t fd) {
  char line[128], request[48];
  *decimal_append(text_append(request, "descriptor "), fd) = 0;
  if (!*socket || !make_line(line, sizeof line, token, request)) return -EINVAL;
  return os_socket_descriptor(socket, line);
}
