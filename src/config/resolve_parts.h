/* resolve_parts.h - what resolve.c and resolve_features.c share; private to them. All trees here
 * are resolved engine tables. */
#ifndef AISIM_CONFIG_RESOLVE_PARTS_H
#define AISIM_CONFIG_RESOLVE_PARTS_H

#include "aisim/config.h"
#include "config/value.h"

/** The value of a path that is not null, else NULL. */
const aisim_value *aisim_given(const aisim_value *tree, const char *path);
/** The text at a path that must hold one. */
const char *aisim_word(const aisim_value *tree, const char *path);
/** The number at a path; 0 for null and for a word such as auto. */
double aisim_number_or_auto(const aisim_value *tree, const char *path);

/** speculation or its old form nextn (mtp.md §1, §10). */
aisim_status aisim_fill_speculation(const aisim_value *engine, aisim_speculation_config *out,
                                    aisim_error *err);
/** kv_cache.host_offload into rank->host; refusals of offload.md §2 and mtp.md §10 that concern one
 *  pool. The rest of the rank is filled. @param model  part of a derived layout id, NULL = none */
aisim_status aisim_fill_host_offload(const aisim_value *engine, const char *model,
                                     aisim_rank_config *rank, aisim_error *err);
/** Position of the word at `path` in "a|b|c"; 0 for an absent key. */
unsigned aisim_member(const aisim_value *tree, const char *path, const char *words);
/** Combinations that would silently do nothing. */
aisim_status aisim_check_effect(const aisim_value *engine, const aisim_rank_config *rank,
                                aisim_error *err);

#endif
