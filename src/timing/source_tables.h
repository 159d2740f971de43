/* source_tables.h - latencies straight from the measured tables (timing.md §3, §5, §7). */
#ifndef AISIM_TIMING_SOURCE_TABLES_H
#define AISIM_TIMING_SOURCE_TABLES_H

#include "timing/table.h"

/** A source on loaded tables. @param table taken over. @param hardware copied. Never NULL. */
aisim_op_source *aisim_op_source_tables(aisim_table *table, const aisim_hardware *hardware);

#endif
