/* override.h - `--set path=value`: one flag laid over a tree before it is checked.
 *
 * The path must exist in the schema, the value is one YAML value ("2048", "true", "[1, 2]",
 * "{type: fixed, blocks: 100}"; nothing = back to the default). A later flag of the same path wins.
 * Whatever is wrong with the value is said by the check afterwards, at the flag:
 *     --set engine.workers.aggregated.scheduler.max_sequences=0: … = 0: must be >= 1 */
#ifndef AISIM_CONFIG_OVERRIDE_H
#define AISIM_CONFIG_OVERRIDE_H

#include "config/value.h"

/** Sets a path of a whole file (object "prediction").
 *  @param tree  a map; maps on the way are made
 *  @return AISIM_OK; AISIM_ENOENT (unknown key, with the nearest name), AISIM_EINVAL (a key below
 *  something that is no map), AISIM_ENOTMODELLED, AISIM_EPARSE (value). On error the tree is
 *  unchanged. The place in err is the flag. */
aisim_status aisim_config_set(aisim_value *tree, const char *path, const char *value,
                              aisim_error *err);

/** Same for another object of the schema, for example "engine". */
aisim_status aisim_config_set_in(aisim_value *tree, const char *object, const char *path,
                                 const char *value, aisim_error *err);

/** Same with the flag's argument "path=value" as typed. */
aisim_status aisim_config_set_flag(aisim_value *tree, const char *object, const char *argument,
                                   aisim_error *err);

#endif
