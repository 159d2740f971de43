/* weka_write.h - a play back as one Weka JSON line (traffic 1.2 to 1.4), so that what was generated
 * or chosen here can be given to others.
 *
 * What the lowering keeps is written: times (child times on the play clock), lengths, models, ids,
 * markers. Reading the line again gives the same graph and digest, unless align_inputs changed the
 * prompts or the play was edited: the form has no place for edges (agentic_mooncake has). */
#ifndef AISIM_WORKLOAD_WEKA_WRITE_H
#define AISIM_WORKLOAD_WEKA_WRITE_H

#include <stdbool.h>
#include <stdio.h>

#include "workload/play.h"

/** Writes one line. @param runs  true: hash_runs (start, count, …) in place of hash_ids, some fifty
 *  times shorter. The caller looks at ferror. O(ids written). */
void aisim_weka_write(const aisim_play *play, bool runs, FILE *out);

/** A text as JSON string with its quotes. */
void aisim_json_write_text(const char *text, FILE *out);

/** Nanoseconds as decimal seconds, exact, without trailing zeros. */
void aisim_json_write_seconds(int64_t ns, FILE *out);

/** The ids of a run with commas between them, and one before them when `comma`. */
void aisim_json_write_ids(const aisim_id_run *run, bool comma, FILE *out);

#endif
