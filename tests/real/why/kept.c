/* SPDX-License-Identifier: MIT
 *
 * A connection that is used after it was closed, when its memory belongs to a message.
 */
#include <stdlib.h>
#include <string.h>

typedef struct connection {
  void (*receive)(struct connection *);
  char pad[120];
} connection_t;

static void ignore(connection_t *c) { c->pad[0]++; }

__attribute__((noinline)) static connection_t *connection_new(void) {
  connection_t *c = malloc(sizeof *c);
  c->receive = ignore;
  return c;
}

__attribute__((noinline)) static void connection_close(connection_t *c) { free(c); }

__attribute__((noinline)) static char *message_new(void) {
  char *text = malloc(sizeof(connection_t));
  memset(text, 'A', sizeof(connection_t));
  return text;
}

__attribute__((noinline)) static void dispatch(connection_t *c) {
  c->receive(c);
  c->pad[1]++;
}

int main(void) {
  connection_t *c = connection_new();
  dispatch(c);
  connection_close(c);
  char *volatile text = message_new();
  dispatch(c);
  return text[0];
}
