/* table_build.h - collects rows in any order and makes a table of them; private to src/timing. */
#ifndef AISIM_TIMING_TABLE_BUILD_H
#define AISIM_TIMING_TABLE_BUILD_H

#include "timing/table.h"

typedef struct aisim_table_builder aisim_table_builder;

/** Never NULL. */
aisim_table_builder *aisim_table_builder_new(void);

/** Adds one measured point; unused key members and axes must be 0. */
void aisim_table_builder_add(aisim_table_builder *builder, aisim_family family,
                             const uint32_t key[], const uint32_t at[], double ms);

/** Sorts and ends: the builder is freed. Of equal points the first one added stays.
 *  @param clamp  NULL, or the hardware whose roofs no point of GEMM and decode attention may
 *                undercut (§3.2, §3.4) */
aisim_table *aisim_table_builder_finish(aisim_table_builder *builder, const aisim_hardware *clamp);

#endif
