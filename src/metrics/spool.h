/* spool.h - lines that arrive in one order and stand in a file in another, without holding them.
 *
 * Lines go to PATH.part as they come; the owner remembers offset and length of each. Closing copies
 * them in the order asked for to PATH.tmp, or keeps the file when it is in order already, and
 * renames it to PATH: a file of the final name is complete. */
#ifndef AISIM_METRICS_SPOOL_H
#define AISIM_METRICS_SPOOL_H

#include <stdint.h>

#include "aisim/status.h"

typedef struct aisim_spool aisim_spool;

typedef struct aisim_spool_line {
    uint64_t offset;
    uint32_t length;
} aisim_spool_line;

/** What stands around the lines of the final file; NULL = nothing. */
typedef struct aisim_spool_frame {
    const char *head, *between, *tail;
} aisim_spool_frame;

/** Opens PATH.part.
 *  @return AISIM_OK or AISIM_EIO (text names the file and the reason) */
aisim_status aisim_spool_open(const char *path, aisim_spool **out, aisim_error *err);

/** Appends bytes. A failed write is reported by aisim_spool_close. */
aisim_spool_line aisim_spool_add(aisim_spool *spool, const char *bytes, uint32_t size);

/** Writes the lines in this order, renames, frees. On error nothing of the final name is written.
 *  @param frame  NULL = the lines alone
 *  @return AISIM_OK or AISIM_EIO. O(n). */
aisim_status aisim_spool_close(aisim_spool *spool, const aisim_spool_line *lines, uint32_t n,
                               const aisim_spool_frame *frame, aisim_error *err);

/** Removes the temporary file and frees; NULL allowed. */
void aisim_spool_discard(aisim_spool *spool);

#endif
