/* table.h - measured latencies in memory: slices of up to three axes.
 *
 * A slice is everything measured for one family and one key (an exact GEMM site, an attention head
 * layout, an expert shape). Its points are rows sorted by their axes in the nesting order of
 * timing.md §3, so that every node of the nested grid is a range of rows.
 *
 *   family                 key                                              axes
 *   GEMM                   dtype, n, k, quantised input (fp8_static only)   m
 *   PREFILL_ATTENTION      arithmetic, kv dtype, head size, window, kv (*)  q heads, seq, batch
 *   DECODE_ATTENTION       the same                                         q heads, batch, len
 *   EXPERTS                dtype, hidden, inter, top k, experts, tp, ep, skew  tokens
 *   MLA_PREFILL            kv dtype, gemm dtype                             heads, seq, batch
 *   MLA_DECODE             the same                                         heads, batch, len
 *   GDN_CONV, GDN_SCAN     hidden, key heads, value heads, head size        batch, seq
 *   GDN_*UPDATE/RECURRENCE the same                                         batch
 *   ALL_REDUCE and NCCL    gpus                                             elements
 *   COMPUTE_SCALE, SCALE_MATRIX                                             m, k
 *
 * (*) KV heads; 0 = as many as query heads. */
#ifndef AISIM_TIMING_TABLE_H
#define AISIM_TIMING_TABLE_H

#include "timing/op_cost.h"

typedef enum {
    AISIM_FAMILY_GEMM,
    AISIM_FAMILY_PREFILL_ATTENTION,
    AISIM_FAMILY_DECODE_ATTENTION,
    AISIM_FAMILY_EXPERTS,
    AISIM_FAMILY_MLA_PREFILL,
    AISIM_FAMILY_MLA_DECODE,
    AISIM_FAMILY_GDN_CONV,
    AISIM_FAMILY_GDN_CONV_UPDATE,
    AISIM_FAMILY_GDN_SCAN,
    AISIM_FAMILY_GDN_RECURRENCE,
    AISIM_FAMILY_ALL_REDUCE,
    AISIM_FAMILY_ALL_GATHER,
    AISIM_FAMILY_REDUCE_SCATTER,
    AISIM_FAMILY_COMPUTE_SCALE,
    AISIM_FAMILY_SCALE_MATRIX,
    AISIM_FAMILY_COUNT
} aisim_family;

enum { AISIM_TABLE_KEYS = 8, AISIM_TABLE_AXES = 3 };

typedef struct aisim_table_row {
    uint32_t at[AISIM_TABLE_AXES]; /* unused axes 0 */
    double ms;
    double log2[AISIM_TABLE_AXES]; /* of `at`, for distances; 0 where a family has one axis only */
} aisim_table_row;

typedef struct aisim_table_slice {
    uint32_t key[AISIM_TABLE_KEYS]; /* unused members 0 */
    uint32_t first, count;          /* rows */
    double log2[AISIM_TABLE_KEYS];  /* of `key`, for distances */
} aisim_table_slice;

typedef struct aisim_table {
    aisim_table_row *rows;
    uint32_t row_count;
    aisim_table_slice *slices; /* sorted by key, families one after the other */
    uint32_t slice_count;
    uint32_t family_first[AISIM_FAMILY_COUNT + 1]; /* slices of family f: [f], up to [f + 1] */
    bool calibrated;                               /* points are fitted, not measured */
    uint32_t sharers;                              /* owners besides the first */
} aisim_table;

/** A point to look up: where an operation under a load lies in the tables. */
typedef struct aisim_table_query {
    aisim_family family;
    uint32_t axes; /* number of axes of the family */
    uint32_t key[AISIM_TABLE_KEYS];
    uint32_t at[AISIM_TABLE_AXES];
} aisim_table_query;

/** @return the number of axes of a family. */
uint32_t aisim_family_axes(aisim_family family);

/** The axis along which square roots of latencies are interpolated (§5.1), or AISIM_TABLE_AXES. */
uint32_t aisim_family_sqrt_axis(aisim_family family);

/** Where @p op under @p load lies. The kind must be one that a source prices. */
void aisim_table_query_of(const aisim_op *op, const aisim_op_load *load, aisim_table_query *query);

/** The inverse: an operation and a load that lie at @p at of the slice @p key. */
void aisim_table_op_of(aisim_family family, const uint32_t key[], const uint32_t at[], aisim_op *op,
                       aisim_op_load *load);

/** Roof of the point @p at of a slice, ms. */
double aisim_table_roof(const aisim_hardware *hardware, aisim_family family, const uint32_t key[],
                        const uint32_t at[]);

/** @return the slice with exactly this key, or NULL. O(log slices). */
const aisim_table_slice *aisim_table_find(const aisim_table *table, aisim_family family,
                                          const uint32_t key[]);

/** Reads the measured tables of a folder (file names and columns: table_load.c). Points faster than
 *  the roof are raised to it for GEMM and decode attention (§3.2, §3.4).
 *  @return AISIM_OK, AISIM_ENOENT, AISIM_EIO, AISIM_EPARSE (file and line). *out NULL on error. */
aisim_status aisim_table_load(const char *folder, const aisim_hardware *hardware, aisim_table **out,
                              aisim_error *err);

/** One more owner of the same table: every owner frees it once. Tables are immutable, so the pools
 *  of a simulation can share one. @return @p table */
aisim_table *aisim_table_share(aisim_table *table);

/** Gives up one ownership. NULL allowed. */
void aisim_table_free(aisim_table *table);

#endif
