/* l_metrics.h - the recorder behind a simulation and what scripts measure themselves; see
 * l_metric.c (metrics of a script) and l_report.c (the recorder and the result of a run). */
#ifndef AISIM_LUA_L_METRICS_H
#define AISIM_LUA_L_METRICS_H

#include "base/array.h"
#include "lua/l_common.h"
#include "metrics/profile_log.h"
#include "metrics/recorder.h"
#include "metrics/report.h"
#include "metrics/request_log.h"

#define AISIM_L_METRIC "aisim.Metric"

/** A metric that a script declared; the recorder may not exist yet. */
typedef struct aisim_l_declared {
    aisim_metric_kind kind;
    char *name, *unit, *help, *by, *num, *den;
    bool keep, series;
    aisim_metric *metric; /**< NULL until there is a recorder */
    int value;            /**< SERIES: refs, the function */
    int64_t every_ns;
    aisim_l_sim *s;
} aisim_l_declared;

/** Bounds for one class. */
typedef struct aisim_l_slo {
    uint16_t class_id;
    aisim_slo slo;
} aisim_l_slo;

typedef struct aisim_l_metrics {
    aisim_recorder_config config;
    aisim_recorder *recorder; /**< NULL until the first value or the run */
    AISIM_ARRAY(aisim_l_declared *) declared;
    AISIM_ARRAY(aisim_l_slo) slos;
    AISIM_ARRAY(aisim_record) records; /**< in the order of the ends */
    AISIM_ARRAY(char *) names;         /**< texts of the records */
    uint64_t max_records;              /**< 0 = keep none */
    uint64_t lost_records;             /**< beyond max_records */
    aisim_request_logs logs;           /**< files that get every record as it comes */
    aisim_profile_log *profile_log;    /**< the same, as AIPerf writes it */
    uint64_t preparation_records;      /**< of primer and warmup */
    aisim_results results;
    bool built; /**< results hold the report */
} aisim_l_metrics;

/** The metrics of a simulation, created at first use. */
aisim_l_metrics *aisim_l_metrics_of(aisim_l_sim *s);

/** Makes the recorder with the configuration so far and hands it the declared metrics. */
aisim_recorder *aisim_l_recorder(lua_State *L, aisim_l_sim *s);

/** The metrics of the simulation at argument 1 whose report is built; raises before the run. */
aisim_l_metrics *aisim_l_check_built(lua_State *L, aisim_l_sim **out);

/** Gives a declared metric to the recorder. */
void aisim_l_metric_attach(lua_State *L, aisim_l_metrics *m, aisim_l_declared *declared);

void aisim_l_metric_register(lua_State *L);
void aisim_l_report_register(lua_State *L);

#endif
