/* SPDX-License-Identifier: MIT */
#include "top/model.h"

#include <stdlib.h>

void top_heap_clear(top_heap_t *heap) {
  for (size_t i = 0; i < heap->site_count; i++)
    free(heap->sites[i].name);
  heap->site_count = 0;
  heap->is_known = false;
}

void top_model_free(top_model_t *model) {
  top_heap_clear(&model->heap);
  free(model->heap.sites);
  free(model->stack.rows);
  top_threads_free(&model->threads);
  top_functions_free(&model->functions);
}
