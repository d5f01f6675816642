// SPDX-License-Identifier: MIT
// fault: the error path of a decoder returns without freeing its buffer
// culprit: decode_message, unpack
// kind: leak, never freed, grow, grew, unreachable
// record: --malloc=all
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct message {
  int kind;
  size_t length;
  unsigned char body[64];
};

static __attribute__((noinline)) unsigned char *unpack(const struct message *m, size_t *length) {
  *length = m->length * 100;
  unsigned char *buffer = malloc(*length);
  for (size_t i = 0; i < *length; i++)
    buffer[i] = m->body[i % sizeof m->body];
  return buffer;
}

static __attribute__((noinline)) int verify(const unsigned char *data, size_t length, int kind) {
  unsigned sum = 0;
  for (size_t i = 0; i < length; i++)
    sum = sum * 17 + data[i];
  return kind % 5 == 3 ? -1 : (int)(sum & 0x7f);
}

static __attribute__((noinline)) int decode_message(const struct message *m) {
  size_t length;
  unsigned char *data = unpack(m, &length);
  int sum = verify(data, length, m->kind);
  if (sum < 0) return -1; /* data is lost */
  free(data);
  return sum;
}

static void receive(struct message *m, int number) {
  m->kind = number;
  m->length = 40 + (size_t)number % 20;
  memset(m->body, number, sizeof m->body);
}

int main(void) {
  long sum = 0;
  for (int i = 0; i < 10000; i++) {
    struct message m;
    receive(&m, i);
    sum += decode_message(&m);
    if (i % 5 == 0) usleep(1000);
  }
  printf("%ld\n", sum);
}
