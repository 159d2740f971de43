/* digest_sort.c - a radix sort that stops early: the upper bits of those in which the values differ
 * leave almost nothing to do, unless many values crowd together. Every measured number goes through
 * here. */
#include "metrics/digest_sort.h"

#include <assert.h>
#include <string.h>

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Bits whose unsigned order is the order of the values. */
static uint64_t order_bits(double value)
{
    uint64_t bits = bits_of(value);
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, DIGITS_MAX = 6 };

static uint32_t digit_of(double value, uint64_t lowest, uint32_t shift)
{
    return (uint32_t)((order_bits(value) - lowest) >> shift) & (DIGITS - 1);
}

/* One stable pass of a radix sort; counts become places. */
static void scatter(const aisim_sample *from, aisim_sample *to, uint32_t n, uint64_t lowest,
                    uint32_t shift, uint32_t count[DIGITS])
{
    uint32_t before = 0;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t here = count[digit];
        count[digit] = before;
        before += here;
    }
    for (uint32_t i = 0; i < n; i++) {
        to[count[digit_of(from[i].value, lowest, shift)]++] = from[i];
    }
}

/* Sorts by the upper `digits` digits of the `width` bits in which the values differ. All digits are
 * counted in one walk. */
static void sort_digits(aisim_sample *data, uint32_t n, uint64_t lowest, uint32_t width,
                        uint32_t digits)
{
    aisim_sample *other = aisim_alloc(n, sizeof *other), *from = data, *to = other;
    uint32_t count[DIGITS_MAX][DIGITS], shift[DIGITS_MAX];
    memset(count, 0, digits * sizeof *count);
    for (uint32_t k = 0; k < digits; k++) {
        shift[k] = width > (k + 1) * DIGIT_BITS ? width - (k + 1) * DIGIT_BITS : 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bits = order_bits(data[i].value) - lowest;
        for (uint32_t k = 0; k < digits; k++) {
            count[k][(bits >> shift[k]) & (DIGITS - 1)]++;
        }
    }
    for (uint32_t k = digits; k > 0; k--) {
        scatter(from, to, n, lowest, shift[k - 1], count[k - 1]);
        aisim_sample *swap = from;
        from = to;
        to = swap;
    }
    if (from != data) {
        memcpy(data, from, n * sizeof *data);
    }
    aisim_free(other);
}

/* Sorts what stands in order but for few places; gives up after 4 n moves. */
static bool settle(aisim_sample *data, uint32_t n)
{
    uint64_t moves = 4 * (uint64_t)n;
    for (uint32_t i = 1; i < n; i++) {
        aisim_sample moving = data[i];
        uint32_t at = i;
        for (; at > 0 && data[at - 1].value > moving.value; at--) {
            data[at] = data[at - 1];
        }
        data[at] = moving;
        if (i - at > moves) {
            return false;
        }
        moves -= i - at;
    }
    return true;
}

void aisim_samples_sort(aisim_sample *data, uint32_t n)
{
    static_assert(sizeof(double) == 8, "doubles of 64 bits");
    uint64_t lowest = UINT64_MAX, highest = 0;
    uint32_t width = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bits = order_bits(data[i].value);
        lowest = bits < lowest ? bits : lowest;
        highest = bits > highest ? bits : highest;
    }
    while (width < 64 && (highest - lowest) >> width > 0) {
        width++;
    }
    if (n >= 64) {
        sort_digits(data, n, lowest, width, n < 4096 ? 2 : 3);
    }
    if (!settle(data, n)) {
        sort_digits(data, n, lowest, width, DIGITS_MAX);
    }
}

/* ---- bare values: half as much to move ---------------------------------------------------------
 */

static double value_of(uint64_t order)
{
    uint64_t bits = order >> 63 ? order & ~((uint64_t)1 << 63) : ~order;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void counts_to_places(uint32_t count[DIGITS])
{
    uint32_t before = 0;
    for (uint32_t digit = 0; digit < DIGITS; digit++) {
        uint32_t here = count[digit];
        count[digit] = before;
        before += here;
    }
}

static void scatter_orders(const uint64_t *from, uint64_t *to, uint32_t n, uint64_t lowest,
                           uint32_t shift, uint32_t count[DIGITS])
{
    counts_to_places(count);
    for (uint32_t i = 0; i < n; i++) {
        to[count[(from[i] - lowest) >> shift & (DIGITS - 1)]++] = from[i];
    }
}

/* Sorts by the 33 bits from `shift` on of what exceeds `lowest`, in three stable passes; ends in
 * `other`. */
static void sort_orders(uint64_t *data, uint64_t *other, uint32_t n, uint64_t lowest,
                        uint32_t shift)
{
    static_assert(DIGIT_BITS == 11, "three digits are 33 bits");
    uint32_t low[DIGITS] = {0}, middle[DIGITS] = {0}, high[DIGITS] = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint64_t bits = (data[i] - lowest) >> shift;
        low[bits & (DIGITS - 1)]++;
        middle[bits >> DIGIT_BITS & (DIGITS - 1)]++;
        high[bits >> 2 * DIGIT_BITS & (DIGITS - 1)]++;
    }
    scatter_orders(data, other, n, lowest, shift, low);
    scatter_orders(other, data, n, lowest, shift + DIGIT_BITS, middle);
    scatter_orders(data, other, n, lowest, shift + 2 * DIGIT_BITS, high);
}

static bool settle_orders(uint64_t *data, uint32_t n)
{
    uint64_t moves = 4 * (uint64_t)n;
    for (uint32_t i = 1; i < n; i++) {
        uint64_t moving = data[i];
        uint32_t at = i;
        for (; at > 0 && data[at - 1] > moving; at--) {
            data[at] = data[at - 1];
        }
        data[at] = moving;
        if (i - at > moves) {
            return false;
        }
        moves -= i - at;
    }
    return true;
}

void aisim_values_sort(double *data, uint32_t n)
{
    uint64_t *orders = aisim_alloc(2 * (size_t)n, sizeof *orders), *sorted = orders;
    uint64_t lowest = UINT64_MAX, highest = 0;
    for (uint32_t i = 0; i < n; i++) {
        orders[i] = order_bits(data[i]);
        lowest = orders[i] < lowest ? orders[i] : lowest;
        highest = orders[i] > highest ? orders[i] : highest;
    }
    uint32_t width = 0;
    while (width < 64 && (highest - lowest) >> width > 0) {
        width++;
    }
    uint32_t shift = width > 3 * DIGIT_BITS ? width - 3 * DIGIT_BITS : 0;
    if (n >= 64) {
        sort_orders(orders, orders + n, n, lowest, shift);
        sorted = orders + n;
    }
    if (!settle_orders(sorted, n)) { /* crowds: the lower bits first, then the upper ones again */
        sort_orders(sorted, sorted == orders ? orders + n : orders, n, lowest, 0);
        sorted = sorted == orders ? orders + n : orders;
        sort_orders(sorted, sorted == orders ? orders + n : orders, n, lowest, shift);
        sorted = sorted == orders ? orders + n : orders;
    }
    for (uint32_t i = 0; i < n; i++) {
        data[i] = value_of(sorted[i]);
    }
    aisim_free(orders);
}
