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

/** Of a family with three axes whose axis 1 is interpolated in square roots (attention of a
 *  prefill): the stretch between two keys of that axis in which the query lies. Inside it, with the
 *  other axes as they are, aisim_resolve_grid is a blend of two roots: aisim_price_cell_ms gives
 *  the same bits.
 *  @return false: the query lies on a key, outside, or between other keys of axis 0 */
bool aisim_resolve_cell(const aisim_table *table, const aisim_table_slice *slice,
                        const aisim_hardware *hardware, const aisim_table_query *query,
                        aisim_price_cell *cell);

/** Latency at m on the curve of a GEMM site (§5.2, known site). */
double aisim_resolve_site(const aisim_table *table, const aisim_table_slice *site,
                          const aisim_hardware *hardware, uint32_t m, aisim_provenance *provenance);

/** Resolves a GEMM query: exact site, else the nearest ones (§5.2).
 *  @return latency in ms, or a negative number when no site is near enough (then §7). */
double aisim_resolve_gemm(const aisim_table *table, const aisim_hardware *hardware,
                          const aisim_table_query *query, aisim_provenance *provenance);

#endif
