/* SPDX-License-Identifier: MIT
 *
 * Opens a file for each request and never closes it.
 */
#include <fcntl.h>
#include <unistd.h>

__attribute__((noinline)) static int read_settings(void) {
  char text[64];
  int fd = open("/etc/passwd", O_RDONLY);
  return (int)read(fd, text, sizeof text);
}

int main(void) {
  for (int i = 0; i < 900; i++) {
    read_settings();
    usleep(2000);
  }
}
