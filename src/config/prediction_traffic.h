/* prediction_traffic.h - what must fit together in `traffic`; private to prediction.c. */
#ifndef AISIM_CONFIG_PREDICTION_TRAFFIC_H
#define AISIM_CONFIG_PREDICTION_TRAFFIC_H

#include "config/prediction.h"

/** Checks traffic of a resolved file, turns load type trace into trace_timestamps, and fills
 *  the time limit of out (spec/traffic.md §2, §3.1, §3.5). */
aisim_status aisim_check_traffic(aisim_value *tree, aisim_prediction *out, aisim_error *err);

#endif
