/* SPDX-License-Identifier: MIT */
#include "cli/common/file_input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "import/memgraph.h"

int file_input_map(const char *path, file_input_t *out) {
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return message_fail("'%s': %s", path, strerror(errno));
  void *data = MAP_FAILED;
  bool good = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (good && status.st_size > 0)
    data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (!good) return message_fail("'%s' is not a file", path);
  if (status.st_size == 0) return message_fail("'%s' is empty", path);
  if (data == MAP_FAILED) return message_fail("'%s': %s", path, strerror(errno));
  (void)madvise(data, (size_t)status.st_size, MADV_SEQUENTIAL);
  *out = (file_input_t){data, (uint64_t)status.st_size, status.st_mtime};
  return CLI_DONE;
}

static int images_of_graph(const char *path, const file_input_t *file, image_list_t *out) {
  memgraph_t graph;
  const char *wrong = memgraph_read(&graph, file->data, file->size);
  *out = graph.images;
  graph.images = (image_list_t){0};
  memgraph_free(&graph);
  return wrong ? message_fail("'%s': %s", path, wrong) : CLI_DONE;
}

int file_input_images(const char *path, const file_input_t *file, image_list_t *out) {
  if (memgraph_is(file->data, file->size)) {
    int status = images_of_graph(path, file, out);
    if (status != CLI_DONE || out->count) return status;
    return message_fail("'%s' is a property list without a list of images", path);
  }
  if (!images_read(out, (const char *)file->data, file->size)) return message_fail("out of memory");
  return out->count ? CLI_DONE : message_fail("'%s' lists no images", path);
}
