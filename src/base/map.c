/* map.c - open addressing with backward-shift deletion. */
#include "base/map.h"

#include "base/alloc.h"
#include "base/rng.h"

static uint32_t home(const aisim_map *map, uint64_t a, uint64_t b)
{
    return (uint32_t)aisim_mix64(a ^ aisim_mix64(b)) & map->mask;
}

static uint32_t find(const aisim_map *map, uint64_t a, uint64_t b)
{
    uint32_t i = home(map, a, b);
    while (map->slots[i].value != AISIM_NONE && (map->slots[i].a != a || map->slots[i].b != b)) {
        i = (i + 1) & map->mask;
    }
    return i;
}

static void grow(aisim_map *map)
{
    uint32_t size = map->slots == NULL ? 16 : (map->mask + 1) * 2;
    aisim_map old = *map;
    map->slots = aisim_alloc(size, sizeof *map->slots);
    map->mask = size - 1;
    for (uint32_t i = 0; i < size; i++) {
        map->slots[i].value = AISIM_NONE;
    }
    if (old.slots != NULL) {
        for (uint32_t i = 0; i <= old.mask; i++) {
            if (old.slots[i].value != AISIM_NONE) {
                map->slots[find(map, old.slots[i].a, old.slots[i].b)] = old.slots[i];
            }
        }
        aisim_free(old.slots);
    }
}

uint32_t aisim_map_get(const aisim_map *map, uint64_t a, uint64_t b)
{
    if (map->len == 0) {
        return AISIM_NONE;
    }
    return map->slots[find(map, a, b)].value;
}

void aisim_map_set(aisim_map *map, uint64_t a, uint64_t b, uint32_t value)
{
    if (map->slots == NULL || (uint64_t)map->len * 4 >= (uint64_t)(map->mask + 1) * 3) {
        grow(map);
    }
    uint32_t i = find(map, a, b);
    if (map->slots[i].value == AISIM_NONE) {
        map->len++;
        map->slots[i].a = a;
        map->slots[i].b = b;
    }
    map->slots[i].value = value;
}

uint32_t aisim_map_remove(aisim_map *map, uint64_t a, uint64_t b)
{
    if (map->len == 0) {
        return AISIM_NONE;
    }
    uint32_t i = find(map, a, b);
    uint32_t value = map->slots[i].value;
    if (value == AISIM_NONE) {
        return AISIM_NONE;
    }
    map->len--;
    uint32_t hole = i;
    for (uint32_t j = (i + 1) & map->mask; map->slots[j].value != AISIM_NONE;
         j = (j + 1) & map->mask) {
        uint32_t want = home(map, map->slots[j].a, map->slots[j].b);
        if (((j - want) & map->mask) >= ((j - hole) & map->mask)) {
            map->slots[hole] = map->slots[j];
            hole = j;
        }
    }
    map->slots[hole].value = AISIM_NONE;
    return value;
}

void aisim_map_free(aisim_map *map)
{
    aisim_free(map->slots);
    map->slots = NULL;
    map->mask = 0;
    map->len = 0;
}
