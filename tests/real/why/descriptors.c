/* SPDX-License-Identifier: MIT
 *
 * Opens a file for each request and never closes it. Another function opens descriptors of another
 * kind, and closes them.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

__attribute__((noinline)) static int read_settings(void) {
  char text[64];
  int fd = open("/etc/passwd", O_RDONLY);
  return (int)read(fd, text, sizeof text);
}

__attribute__((noinline)) static void tell_others(void) { close(socket(AF_UNIX, SOCK_DGRAM, 0)); }

int main(void) {
  for (int i = 0; i < 900; i++) {
    read_settings();
    if (i % 10 == 0) tell_others();
    usleep(2000);
  }
}
