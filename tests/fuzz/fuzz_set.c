/* fuzz_set.c - any bytes as the argument of --set, over an empty and over a filled tree: a refusal
 * names the flag and changes nothing. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/override.h"
#include "config/schema.h"
#include "config/yaml.h"

static const char filled[] = "{engine: {model: {layers: 2}, workers: {aggregated: {scheduler: "
                             "{max_sequences: 4}}}}, traffic: {stop: {requests: 5}}}";

static void run(const char *argument, const char *text)
{
    aisim_value *tree = NULL;
    aisim_source *source = aisim_source_new(AISIM_ORIGIN_FILE, "fuzz.yaml");
    if (aisim_yaml_text(text, strlen(text), source, &tree, NULL) != AISIM_OK) {
        abort();
    }
    aisim_source_release(source);
    aisim_value *before = aisim_value_copy(tree);
    aisim_error err = {0};
    aisim_status status = aisim_config_set_flag(tree, "prediction", argument, &err);
    if (status != AISIM_OK) {
        if (!aisim_value_equal(tree, before) || strncmp(err.file, "--set", 5) != 0 ||
            err.text[0] == '\0') {
            fprintf(stderr, "'%s': %s: %s\n", argument, err.file, err.text);
            abort();
        }
    } else {
        aisim_schema_check(tree, "prediction", "", "", &err);
    }
    aisim_value_free(before);
    aisim_value_free(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argument = malloc(size + 1);
    if (argument == NULL) {
        exit(3);
    }
    memcpy(argument, data, size);
    argument[size] = '\0';
    run(argument, "{}");
    run(argument, filled);
    free(argument);
    return 0;
}
