/* compare_engine.h - the product engine beside the twin in one program.
 *
 * engine_double.c implements twin.h on an aisim_rank under these names; including engine_double.h
 * would rename the twin away, so the prototypes are listed once more. Both sides share the argument
 * and result types of twin.h. An `engine` is never passed to a twin_ function. */
#ifndef AISIM_COMPARE_ENGINE_H
#define AISIM_COMPARE_ENGINE_H

#include "twin.h"

#include "timing/timing.h"

twin *engine_new(const aisim_rank_config *config, uint32_t rank);
void engine_free(twin *engine);
uint32_t engine_submit(twin *engine, const twin_submit_args *args);
bool engine_cancel(twin *engine, uint32_t id);
uint32_t engine_plan(twin *engine, bool defer_prefill);
void engine_complete(twin *engine, uint32_t batch, const twin_result *results, uint32_t n);
const twin_record *engine_last(twin *engine);
bool engine_find(const twin *engine, uint32_t id, twin_view *out);
bool engine_read(const twin *engine, uint32_t serial, twin_view *out);
uint32_t engine_running(const twin *engine, const uint32_t **serials);
uint32_t engine_waiting(const twin *engine, const uint32_t **serials);
uint32_t engine_skipped(const twin *engine, const uint32_t **serials);
bool engine_unblock(twin *engine, uint32_t id);
void engine_set_external(twin *engine, uint32_t matched);
twin_totals engine_sum(const twin *engine);
bool engine_defers(const twin *engine, uint32_t ranks, uint64_t wave_step);
void engine_set_budget(twin *engine, uint32_t tokens);
bool engine_reset(twin *engine, bool force);
bool engine_reserve(twin *engine, const twin_submit_args *args);
bool engine_activate(twin *engine, uint32_t id);
bool engine_release_source(twin *engine, uint32_t id);
void engine_verify(const twin *engine);
void engine_set_time(twin *engine, int64_t t_ns);
int64_t engine_next_transfer(const twin *engine);
bool engine_transfers(twin *engine, int64_t t_ns);
void engine_flow(twin *engine, int64_t t_ns);
int64_t engine_fence(const twin *engine);
bool engine_peer_store(twin *engine, uint32_t serial, uint32_t first, uint32_t end);
bool engine_peer_load(twin *engine, uint32_t serial, uint32_t first, uint32_t end);
void engine_host_look(twin *engine, twin_host_view *out);

/** Nobody looks at items and deliveries of the passes from here on (engine_internal.h). */
void engine_set_quiet(twin *engine, bool on);
/** A listener for each token comes or goes (engine_internal.h). */
void engine_listen(twin *engine, bool on);
/** What the engine hands to the timing model for the pass just planned (compare_probe.c). */
const aisim_pass_shape *engine_shape(const twin *engine);

#endif
