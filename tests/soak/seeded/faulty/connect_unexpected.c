// SPDX-License-Identifier: MIT
// fault: a word counter sends statistics to a server
// culprit: report_usage, send_metrics
// kind: connect
// record: --audit
// build: gcc -O1 -g
#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static __attribute__((noinline)) long count_words(const char *text) {
  long words = 0;
  int inside = 0;
  for (; *text; text++) {
    int space = isspace((unsigned char)*text);
    if (!space && !inside) words++;
    inside = !space;
  }
  return words;
}

static __attribute__((noinline)) void send_metrics(int fd, long words) {
  char line[64];
  int length = snprintf(line, sizeof line, "words=%ld user=%d\n", words, (int)getuid());
  if (write(fd, line, (size_t)length) < 0) perror("write");
}

static __attribute__((noinline)) void report_usage(long words) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) send_metrics(fd, words);
  close(fd);
}

static long count_file(const char *path) {
  char text[65536];
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  size_t length = fread(text, 1, sizeof text - 1, f);
  text[length] = 0;
  fclose(f);
  return count_words(text);
}

int main(void) {
  long words = count_file("/etc/services") + count_file("/etc/passwd");
  report_usage(words);
  printf("%ld\n", words);
}
