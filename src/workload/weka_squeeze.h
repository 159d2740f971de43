/* weka_squeeze.h - block ids of a play shortened before the JSON library sees them; private to
 * weka.c.
 *
 * Published plays list every block id of every prompt, some fifty times as much text as everything
 * else, and nearly always in runs of consecutive numbers. Making a JSON value of each would take
 * most of the time of reading, so lists of plain numbers become hash_runs (start, count, …) in the
 * text. */
#ifndef AISIM_WORKLOAD_WEKA_SQUEEZE_H
#define AISIM_WORKLOAD_WEKA_SQUEEZE_H

#include <stdbool.h>
#include <stddef.h>

/** @param out  the shorter text, freed by the caller
 *  @return false when there is nothing to gain or anything is unusual: then the text is to be read
 * as it is. Lists that are not plain numbers stay, so that their errors are found. O(size) */
bool aisim_weka_squeeze(const char *text, size_t size, char **out, size_t *out_size);

#endif
