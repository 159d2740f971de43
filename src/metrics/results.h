/* results.h - a tree of named results, neutral between C, Lua and JSON.
 *
 * Nodes are numbered; node 0 is the root object. Children keep the order in which they were added,
 * so a file written from the tree has its keys in a fixed order. A number that is not finite is a
 * null: "undefined". The tree owns its texts.
 *
 * Flat names join the keys on the way with '.', leaving out transparent objects: the result
 * totals.gauges.kv_usage.mean is called "kv_usage.mean" (spec/lua-api.md §11 run.metrics). */
#ifndef AISIM_METRICS_RESULTS_H
#define AISIM_METRICS_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "metrics/json.h"

typedef enum {
    AISIM_RESULT_NULL,
    AISIM_RESULT_BOOL,
    AISIM_RESULT_INT,
    AISIM_RESULT_NUMBER,
    AISIM_RESULT_TEXT,
    AISIM_RESULT_OBJECT,
    AISIM_RESULT_ARRAY
} aisim_result_kind;

typedef struct aisim_result {
    aisim_result_kind kind;
    bool transparent;           /**< object that flat names leave out */
    char *key;                  /**< NULL in arrays and for the root */
    uint32_t first, last, next; /**< children, sibling; AISIM_NONE */
    union {
        bool flag;
        int64_t integer;
        double number;
        char *text;
    } u;
} aisim_result;

typedef struct aisim_results {
    AISIM_ARRAY(aisim_result) nodes;
} aisim_results;

void aisim_results_init(aisim_results *results); /**< one empty root object */
void aisim_results_free(aisim_results *results);

/** Node by number; valid until the next addition. */
const aisim_result *aisim_results_at(const aisim_results *results, uint32_t node);

/* Adding: key NULL in arrays. @return the number of the new node. */
uint32_t aisim_results_object(aisim_results *results, uint32_t parent, const char *key);
/** An object that flat names leave out. */
uint32_t aisim_results_group(aisim_results *results, uint32_t parent, const char *key);
uint32_t aisim_results_array(aisim_results *results, uint32_t parent, const char *key);
uint32_t aisim_results_null(aisim_results *results, uint32_t parent, const char *key);
uint32_t aisim_results_bool(aisim_results *results, uint32_t parent, const char *key, bool value);
uint32_t aisim_results_int(aisim_results *results, uint32_t parent, const char *key, int64_t value);
uint32_t aisim_results_uint(aisim_results *results, uint32_t parent, const char *key,
                            uint64_t value); /**< above 2^63: a number */
uint32_t aisim_results_number(aisim_results *results, uint32_t parent, const char *key,
                              double value); /**< not finite: null */
uint32_t aisim_results_text(aisim_results *results, uint32_t parent, const char *key,
                            const char *value); /**< copied; NULL: null */

/** Child of that key, or AISIM_NONE. */
uint32_t aisim_results_find(const aisim_results *results, uint32_t parent, const char *key);

/** Node of a path of keys joined with '.', from `parent`; keys may contain '.'. Or AISIM_NONE. */
uint32_t aisim_results_path(const aisim_results *results, uint32_t parent, const char *path);

/** Numeric value of a node (INT, NUMBER, BOOL as 0 or 1), NaN for the rest. */
double aisim_results_value(const aisim_results *results, uint32_t node);

/** Calls fn for each leaf below a node that is not inside an array, in order, with its flat name.
 */
typedef void (*aisim_results_leaf)(void *context, const char *name, const aisim_result *leaf);
void aisim_results_flat(const aisim_results *results, uint32_t node, aisim_results_leaf fn,
                        void *context);

/** Writes the subtree of a node as a value. */
void aisim_results_json(const aisim_results *results, uint32_t node, aisim_json *json);

#endif
