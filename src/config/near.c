/* near.c - optimal string alignment: an edit distance in which swapping neighbours costs one. */
#include "config/near.h"

#include <string.h>

enum { NAME_MAX_ = 63, NEAR = 2 };

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t aisim_near_distance(const char *a, const char *b, uint32_t limit)
{
    size_t n = strlen(a), m = strlen(b);
    size_t gap = n > m ? n - m : m - n;
    if (n > NAME_MAX_ || m > NAME_MAX_ || gap > limit) {
        return limit + 1;
    }
    uint32_t rows[3][NAME_MAX_ + 1]; /* this row and the two before it */
    for (size_t j = 0; j <= m; j++) {
        rows[0][j] = (uint32_t)j;
    }
    for (size_t i = 1; i <= n; i++) {
        uint32_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= m; j++) {
            row[j] = least(least(above[j] + 1, row[j - 1] + 1),
                           above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return least(rows[n % 3][m], limit + 1);
}

void aisim_near_offer(aisim_near *search, const char *candidate)
{
    uint32_t distance = aisim_near_distance(search->name, candidate, NEAR);
    size_t longer = strlen(candidate);
    longer = strlen(search->name) > longer ? strlen(search->name) : longer;
    if (distance > NEAR || distance * 2 >= longer) {
        return;
    }
    if (search->best == NULL || distance < search->distance) {
        search->best = candidate;
        search->distance = distance;
    }
}
