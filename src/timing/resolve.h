/* resolve.h - interpolation in the measured tables (timing.md §5).
 *
 * Two resolvers: nested grids (attention, latent blocks, delta-net, quantisation, 1-D curves) and
 * scattered GEMM sites. Measured points come back verbatim; nothing is smoothed. Beyond the data
 * latency follows the roof at the efficiency of the nearest points. */
#ifndef AISIM_TIMING_RESOLVE_H
#define AISIM_TIMING_RESOLVE_H

#include "timing/table.h"

/** Resolves a query in one slice (§5.1). Never fails: extrapolation has no distance limit. */
double aisim_resolve_grid(const aisim_table *table, const aisim_table_slice *slice,
                          const aisim_hardware *hardware, const aisim_table_query *query,
                          aisim_provenance *provenance);

/** The stretch between two neighbouring keys of the square-root axis in which the last query of a
 *  three-axis slice lay, for one pair of keys of the other two: inside it a query is a blend. */
typedef struct aisim_grid_cell {
    const aisim_table_slice *slice; /* NULL = empty */
    uint32_t outer, inner;          /* keys of axis 0 and 2 */
    uint32_t low, high;             /* keys of axis 1; the cell is what lies between them */
    double low_root, high_root;     /* square roots of the latencies there */
} aisim_grid_cell;

/** The same as aisim_resolve_grid for a family whose axis 1 is interpolated in square roots
 *  (attention of a prefill). Bit for bit the same; a query in the cell costs no search. */
double aisim_resolve_cell(const aisim_table *table, const aisim_table_slice *slice,
                          const aisim_hardware *hardware, const aisim_table_query *query,
                          aisim_grid_cell *cell, aisim_provenance *provenance);

/** Latency at m on the curve of a GEMM site (§5.2, known site). */
double aisim_resolve_site(const aisim_table *table, const aisim_table_slice *site,
                          const aisim_hardware *hardware, uint32_t m, aisim_provenance *provenance);

/** Resolves a GEMM query: exact site, else the nearest ones (§5.2).
 *  @return latency in ms, or a negative number when no site is near enough (then §7). */
double aisim_resolve_gemm(const aisim_table *table, const aisim_hardware *hardware,
                          const aisim_table_query *query, aisim_provenance *provenance);

#endif
