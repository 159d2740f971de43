/* digest_sort.h - sorting what a digest has collected; private to src/metrics. */
#ifndef AISIM_METRICS_DIGEST_SORT_H
#define AISIM_METRICS_DIGEST_SORT_H

#include "metrics/digest.h"

/** Sorts n samples by value, ascending. O(n) as long as values do not crowd together. */
void aisim_samples_sort(aisim_sample *data, uint32_t n);

/** The same for bare values. */
void aisim_values_sort(double *data, uint32_t n);

#endif
