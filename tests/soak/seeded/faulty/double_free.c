// SPDX-License-Identifier: MIT
// fault: an error path frees a header that the caller frees, too
// culprit: parse_header, release_request
// kind: double free, freed twice, freed already, already freed, second free
// symptom: crash, abort
// record: --malloc=all
// build: gcc -O1 -g
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
  char *method;
  char *header;
  size_t length;
};

static char *copy_of(const char *text, size_t length) {
  char *copy = malloc(length + 40);
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

static __attribute__((noinline)) int parse_header(struct request *r, const char *text) {
  const char *colon = strchr(text, ':');
  r->length = strlen(text);
  r->header = copy_of(text, r->length);
  if (!colon) {
    free(r->header); /* and leaves the pointer */
    return -1;
  }
  r->header[colon - text] = '=';
  return 0;
}

static __attribute__((noinline)) void release_request(struct request *r) {
  free(r->header);
  free(r->method);
  r->method = NULL;
}

static __attribute__((noinline)) int handle(const char *method, const char *header) {
  struct request r = {0};
  r.method = copy_of(method, strlen(method));
  int status = parse_header(&r, header);
  int answer = status ? 400 : 200 + (int)(r.length % 2);
  release_request(&r);
  return answer;
}

int main(void) {
  static const char *const headers[] = {"Host: example", "Accept: text", "Range: 0-10",
                                        "Broken header", "Via: x"};
  int sum = 0;
  for (int i = 0; i < 1000; i++)
    sum += handle(i % 2 ? "GET" : "POST", headers[i < 800 ? i % 3 : i % 5]);
  printf("%d\n", sum);
}
