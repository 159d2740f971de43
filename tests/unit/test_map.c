/* test_map.c - the hash map against a list searched from the front. */
#include "base/map.h"
#include "base/rng.h"
#include "check.h"

/* Few distinct keys, so that every operation meets present and absent ones. */
enum { KEYS = 600, OPERATIONS = 60000 };

typedef struct {
    uint64_t a, b;
    uint32_t value;
} entry;

static void empty_map(void)
{
    aisim_map map = {0};
    CHECK_EQ(aisim_map_get(&map, 0, 0), AISIM_NONE);
    CHECK_EQ(aisim_map_remove(&map, 0, 0), AISIM_NONE);
    aisim_map_free(&map);
    CHECK(map.slots == NULL && map.len == 0);
}

static void a_pair_is_ordered_and_zero_is_a_key(void)
{
    aisim_map map = {0};
    aisim_map_set(&map, 1, 2, 12);
    aisim_map_set(&map, 2, 1, 21);
    aisim_map_set(&map, 0, 0, 0);
    aisim_map_set(&map, UINT64_MAX, UINT64_MAX, 99);
    CHECK_EQ(map.len, 4);
    CHECK_EQ(aisim_map_get(&map, 1, 2), 12);
    CHECK_EQ(aisim_map_get(&map, 2, 1), 21);
    CHECK_EQ(aisim_map_get(&map, 0, 0), 0);
    CHECK_EQ(aisim_map_get(&map, UINT64_MAX, UINT64_MAX), 99);
    aisim_map_set(&map, 1, 2, 13);
    CHECK_EQ(map.len, 4);
    CHECK_EQ(aisim_map_get(&map, 1, 2), 13);
    aisim_map_free(&map);
    aisim_map_set(&map, 1, 2, 14); /* usable again */
    CHECK_EQ(aisim_map_get(&map, 1, 2), 14);
    aisim_map_free(&map);
}

/* Sets and removes at random; after every operation the touched key agrees with the list, and now
 * and then all keys do. Removal shifts clusters back, which is where such a map goes wrong. */
static void agrees_with_a_list(uint64_t seed)
{
    static entry list[KEYS];
    aisim_rng rng = aisim_rng_named(seed, "map");
    aisim_map map = {0};
    uint32_t len = 0;
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        entry fresh = {aisim_rng_below(&rng, 8), i, AISIM_NONE};
        list[i] = fresh;
    }
    for (uint32_t n = 0; n < OPERATIONS; n++) {
        entry *one = &list[aisim_rng_below(&rng, KEYS)];
        /* the share of removals swings, so the map grows full and runs empty again */
        if (aisim_rng_below(&rng, 100) < (n / 10000 % 2 == 0 ? 30 : 70)) {
            wrong += aisim_map_remove(&map, one->a, one->b) != one->value;
            len -= one->value != AISIM_NONE;
            one->value = AISIM_NONE;
        } else {
            len += one->value == AISIM_NONE;
            one->value = n;
            aisim_map_set(&map, one->a, one->b, n);
        }
        wrong += aisim_map_get(&map, one->a, one->b) != one->value || map.len != len;
        for (uint32_t i = 0; n % 500 == 0 && i < KEYS; i++) {
            wrong += aisim_map_get(&map, list[i].a, list[i].b) != list[i].value;
        }
    }
    CHECK_EQ(wrong, 0);
    CHECK((uint64_t)map.len * 4 <= ((uint64_t)map.mask + 1) * 3); /* load factor */
    aisim_map_free(&map);
}

int main(void)
{
    empty_map();
    a_pair_is_ordered_and_zero_is_a_key();
    for (uint64_t seed = 1; seed <= 5; seed++) {
        agrees_with_a_list(seed);
    }
    return check_done();
}
