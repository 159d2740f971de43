/* schema_rows.h - how the tables of schema_*.c are written; private to the schema. */
#ifndef AISIM_CONFIG_SCHEMA_ROWS_H
#define AISIM_CONFIG_SCHEMA_ROWS_H

#include "config/schema.h"

#define AT_LEAST(x) .min = (x), .flags = AISIM_FIELD_HAS_MIN
#define ABOVE(x) .min = (x), .flags = AISIM_FIELD_HAS_MIN | AISIM_FIELD_MIN_OPEN
#define BETWEEN(a, b) .min = (a), .max = (b), .flags = AISIM_FIELD_HAS_MIN | AISIM_FIELD_HAS_MAX
#define FROM_BELOW(a, b)                                                                           \
    .min = (a), .max = (b),                                                                        \
    .flags = AISIM_FIELD_HAS_MIN | AISIM_FIELD_HAS_MAX | AISIM_FIELD_MAX_OPEN
#define ABOVE_UP_TO(a, b)                                                                          \
    .min = (a), .max = (b),                                                                        \
    .flags = AISIM_FIELD_HAS_MIN | AISIM_FIELD_HAS_MAX | AISIM_FIELD_MIN_OPEN

/* A number in bounds, or a distribution. */
#define DRAWN_BETWEEN(a, b)                                                                        \
    .min = (a), .max = (b), .flags = AISIM_FIELD_HAS_MIN | AISIM_FIELD_HAS_MAX | AISIM_FIELD_DRAWN
#define DRAWN_AT_LEAST(x) .min = (x), .flags = AISIM_FIELD_HAS_MIN | AISIM_FIELD_DRAWN

#define NOT_MODELLED(text) .status = AISIM_STATUS_NOT_MODELLED, .note = (text)
#define DEFAULT_ONLY(text) .status = AISIM_STATUS_DEFAULT_ONLY, .note = (text)

#define GROUP(table)                                                                               \
    {                                                                                              \
        (table), sizeof(table) / sizeof *(table)                                                   \
    }

extern const aisim_object aisim_engine_objects[]; /* schema_engine.c */
extern const uint32_t aisim_engine_objects_n;
extern const aisim_object aisim_timing_objects[]; /* schema_timing.c */
extern const uint32_t aisim_timing_objects_n;
extern const aisim_object aisim_cache_objects[]; /* schema_cache.c */
extern const uint32_t aisim_cache_objects_n;
extern const aisim_object aisim_traffic_objects[]; /* schema_traffic.c */
extern const uint32_t aisim_traffic_objects_n;
extern const aisim_object aisim_load_objects[]; /* schema_load.c */
extern const uint32_t aisim_load_objects_n;
extern const aisim_object aisim_distribution_objects[]; /* schema_distribution.c */
extern const uint32_t aisim_distribution_objects_n;
extern const aisim_object aisim_router_objects[]; /* schema_router.c */
extern const uint32_t aisim_router_objects_n;

#endif
