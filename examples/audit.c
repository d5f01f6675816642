/* SPDX-License-Identifier: MIT
 *
 * A program that records its own calls of sensitive functions (sonde/audit.h).
 *
 *   cc audit.c -lsonde && sonde audit compile linux -o linux.aud
 *   ./a.out linux.aud run.sonde && sonde report run.sonde audit
 */
#include <stdio.h>
#include <unistd.h>

#include <sonde/audit.h>

static _Alignas(4) char policy[1 << 20];

int main(int argc, char **argv) {
  FILE *file = argc > 2 ? fopen(argv[1], "rb") : NULL;
  if (!file) {
    fprintf(stderr, "usage: audit POLICY RECORDING\n");
    return 2;
  }
  size_t size = fread(policy, 1, sizeof policy, file);
  fclose(file);
  int status = sonde_audit_start(policy, size, argv[2]);
  if (status < 0) {
    fprintf(stderr, "cannot audit: %s\n", sonde_strerror(status));
    return 2;
  }
  unlink("/nonexistent/file"); /* a sensitive call */
  status = sonde_audit_stop();
  printf("audit ended: %s\n", sonde_strerror(status));
  return status < 0;
}
