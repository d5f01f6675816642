/* Three workers wait for jobs, and the main thread waits for a connection. */
#include <pthread.h>
#include <stddef.h>
#include <netinet/in.h>
#include <sys/socket.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static volatile int jobs;

static void take_job(void) {
  pthread_mutex_lock(&mutex);
  while (!jobs)
    pthread_cond_wait(&filled, &mutex);
  jobs--;
  pthread_mutex_unlock(&mutex);
}

static void *work(void *unused) {
  for (;;)
    take_job();
  return unused;
}

static void serve(int listener) { accept(listener, NULL, NULL); }

int main(void) {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  pthread_t thread;
  listen(listener, 5);
  for (int i = 0; i < 3; i++)
    pthread_create(&thread, NULL, work, NULL);
  serve(listener);
  return 0;
}
