/* SPDX-License-Identifier: MIT
 *
 * Which handlers of fatal signals a program finds that has installed none, in itself and in a child
 * of fork: none, by sigaction and by signal. Ends with how many it found.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int found(void) {
  static const int numbers[] = {SIGSEGV, SIGABRT, SIGFPE};
  int count = 0;
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction action;
    sigaction(numbers[i], NULL, &action);
    count += action.sa_handler != SIG_DFL;
    count += signal(numbers[i], SIG_IGN) != SIG_DFL;
    count += signal(numbers[i], SIG_DFL) != SIG_IGN;
  }
  return count;
}

int main(void) {
  int status;
  pid_t child = fork();
  if (child == 0) _exit(found());
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) + found() : 99;
}
