/* engine_double.h - the product engine behind the interface of the twin.
 *
 * engine_double.c implements every function of twin.h on an aisim_rank; the names are exchanged
 * here so that one program can hold both. Include it instead of twin.h where the engine is meant;
 * a program that compares the two includes twin.h and declares the engine_ names itself (ENGINE).
 */
#ifndef AISIM_ENGINE_DOUBLE_H
#define AISIM_ENGINE_DOUBLE_H

#define twin_activate engine_activate
#define twin_align_split engine_align_split
#define twin_cancel engine_cancel
#define twin_complete engine_complete
#define twin_defers engine_defers
#define twin_draw engine_draw
#define twin_fence engine_fence
#define twin_find engine_find
#define twin_flow engine_flow
#define twin_host_look engine_host_look
#define twin_next_transfer engine_next_transfer
#define twin_peer_load engine_peer_load
#define twin_peer_store engine_peer_store
#define twin_set_time engine_set_time
#define twin_transfers engine_transfers
#define twin_free engine_free
#define twin_last engine_last
#define twin_new engine_new
#define twin_pass engine_pass
#define twin_plan engine_plan
#define twin_read engine_read
#define twin_reason_name engine_reason_name
#define twin_release_source engine_release_source
#define twin_reserve engine_reserve
#define twin_reset engine_reset
#define twin_running engine_running
#define twin_set_budget engine_set_budget
#define twin_set_external engine_set_external
#define twin_skipped engine_skipped
#define twin_submit engine_submit
#define twin_sum engine_sum
#define twin_unblock engine_unblock
#define twin_verify engine_verify
#define twin_waiting engine_waiting

#include "twin.h"

#endif
