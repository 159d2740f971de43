/* test_array.c - the growable array macros. */
#include "base/array.h"
#include "check.h"

typedef struct {
    int x;
    double y;
} point;

static void grows_and_keeps_what_it_holds(void)
{
    AISIM_ARRAY(uint32_t) array = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        aisim_array_push(&array, i * i);
    }
    CHECK_EQ(array.len, 1000);
    CHECK_EQ(array.cap, 1024); /* doubling from 8 */
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < array.len; i++) {
        wrong += array.data[i] != i * i;
    }
    CHECK_EQ(wrong, 0);
    array.len = 0; /* a pass empties it, the capacity stays */
    const uint32_t *before = array.data;
    aisim_array_push(&array, 7);
    CHECK(array.data == before && array.cap == 1024);
    aisim_array_free(&array);
    CHECK(array.data == NULL && array.len == 0 && array.cap == 0);
}

static void reserve_is_about_the_total(void)
{
    AISIM_ARRAY(char) array = {0};
    aisim_array_reserve(&array, 1);
    CHECK_EQ(array.cap, 8);
    aisim_array_reserve(&array, 9);
    CHECK_EQ(array.cap, 16);
    aisim_array_reserve(&array, 3);
    CHECK_EQ(array.cap, 16);
    CHECK_EQ(array.len, 0);
    aisim_array_free(&array);
}

static void remove_keeps_the_order(void)
{
    AISIM_ARRAY(int) array = {0};
    for (int i = 0; i < 5; i++) {
        aisim_array_push(&array, i);
    }
    aisim_array_remove(&array, 1); /* 0 2 3 4 */
    aisim_array_remove(&array, 3); /* 0 2 3: the last one */
    aisim_array_remove(&array, 0); /* 2 3: the first one */
    CHECK_EQ(array.len, 2);
    CHECK_EQ(array.data[0], 2);
    CHECK_EQ(array.data[1], 3);
    aisim_array_remove(&array, 0);
    aisim_array_remove(&array, 0);
    CHECK_EQ(array.len, 0);
    aisim_array_free(&array);
}

static void holds_structures(void)
{
    AISIM_ARRAY(point) array = {0};
    aisim_array_push(&array, (point){3, 0.5});
    aisim_array_push(&array, (point){.x = 4, .y = 0.25});
    CHECK_EQ(array.data[1].x, 4);
    CHECK_NEAR(array.data[0].y, 0.5, 0.0);
    aisim_array_free(&array);
}

int main(void)
{
    grows_and_keeps_what_it_holds();
    reserve_is_about_the_total();
    remove_keeps_the_order();
    holds_structures();
    return check_done();
}
