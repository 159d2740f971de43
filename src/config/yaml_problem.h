/* yaml_problem.h - what the YAML library refuses, said to who wrote the file; private to yaml.c. */
#ifndef AISIM_CONFIG_YAML_PROBLEM_H
#define AISIM_CONFIG_YAML_PROBLEM_H

#include <stddef.h>
#include <yaml.h>

#include "config/value.h"

/** Fills err from a parser that failed on a text.
 *  @param source  its source; line 0 = a flag without lines, else line 1 */
aisim_status aisim_yaml_problem(const yaml_parser_t *parser, const char *text, size_t length,
                                aisim_mark source, aisim_error *err);

#endif
