/* SPDX-License-Identifier: MIT
 *
 * A map from ids to small numbers, in memory of the caller that is zero at first. It never grows:
 * the caller keeps a quarter of it free. Used by one thread.
 */
#ifndef SONDE_SENSOR_MALLOC_ID_MAP_H
#define SONDE_SENSOR_MALLOC_ID_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define ID_MAP_BITS  17u
#define ID_MAP_SLOTS (1u << ID_MAP_BITS)
#define ID_MAP_MAX   (ID_MAP_SLOTS / 4 * 3)

typedef struct id_map {
  uint32_t count;
  struct {
    uint32_t id, number; /* id 0: free; numbers count from 1 */
  } slots[ID_MAP_SLOTS];
} id_map_t;

/* The number of ID, which is not 0; 0: it has none. */
static inline uint32_t id_map_get(const id_map_t *map, uint32_t id) {
  uint32_t at = id * 0x9e3779b1u >> (32 - ID_MAP_BITS);
  for (; map->slots[at].id; at = (at + 1) % ID_MAP_SLOTS)
    if (map->slots[at].id == id) return map->slots[at].number;
  return 0;
}

/* Gives ID, which has none, the next number. Returns 0 if the map is full. */
static inline uint32_t id_map_add(id_map_t *map, uint32_t id) {
  uint32_t at = id * 0x9e3779b1u >> (32 - ID_MAP_BITS);
  if (map->count == ID_MAP_MAX) return 0;
  while (map->slots[at].id)
    at = (at + 1) % ID_MAP_SLOTS;
  map->slots[at].id = id;
  return map->slots[at].number = ++map->count;
}

#endif
