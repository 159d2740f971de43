/* fuzz_yaml.c - any bytes as YAML: never a crash, every refusal has a text, and what is accepted
 * survives writing and reading, checking and resolving. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/emit.h"
#include "config/prediction.h"
#include "config/resolve.h"
#include "config/schema.h"
#include "config/yaml.h"

#define MUST(expression)                                                                           \
    do {                                                                                           \
        if (!(expression)) {                                                                       \
            fprintf(stderr, "%s does not hold\n", #expression);                                    \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static aisim_value *read_bytes(const char *bytes, size_t size, aisim_error *err)
{
    aisim_value *value = NULL;
    aisim_source *source = aisim_source_new(AISIM_ORIGIN_FILE, "fuzz.yaml");
    aisim_status status = aisim_yaml_text(bytes, size, source, &value, err);
    aisim_source_release(source);
    MUST((status == AISIM_OK) == (value != NULL));
    MUST(status == err->code && (status == AISIM_OK || err->text[0] != '\0'));
    return value;
}

static void survives_writing(const aisim_value *value)
{
    aisim_text yaml = {0}, json = {0};
    aisim_error err = {0};
    aisim_emit_yaml(value, &yaml);
    aisim_value *again = read_bytes(aisim_text_get(&yaml), yaml.len, &err);
    MUST(again != NULL && aisim_value_equal(value, again));
    aisim_value_free(again);
    aisim_emit_json(value, &json);
    again = read_bytes(aisim_text_get(&json), json.len, &err); /* JSON is YAML */
    MUST(again != NULL);
    aisim_value_free(again);
    aisim_text_free(&yaml);
    aisim_text_free(&json);
}

static void resolves(const aisim_value *value, const char *object)
{
    aisim_value *checked = aisim_value_copy(value);
    aisim_error err = {0};
    aisim_status status = aisim_schema_check(checked, object, "", "", &err);
    MUST(status == err.code && (status == AISIM_OK || err.text[0] != '\0'));
    if (status == AISIM_OK) {
        aisim_value *once = aisim_schema_resolve(checked, object);
        MUST(aisim_schema_check(once, object, "", "", &err) == AISIM_OK);
        aisim_value *twice = aisim_schema_resolve(once, object);
        MUST(aisim_value_equal(once, twice));
        if (object[0] == 'e') {
            aisim_rank_config rank;
            aisim_capacity_request capacity;
            aisim_config_facts facts = {.bytes_per_token = 3};
            status = aisim_config_rank(checked, &facts, &rank, &capacity, &err);
            MUST(status == err.code);
        }
        aisim_value_free(once);
        aisim_value_free(twice);
    }
    aisim_value_free(checked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    aisim_error err = {0};
    aisim_value *value = read_bytes((const char *)data, size, &err);
    if (value == NULL) {
        return 0;
    }
    survives_writing(value);
    resolves(value, "prediction");
    resolves(value, "engine");
    aisim_prediction prediction;
    err = (aisim_error){0};
    aisim_status status = aisim_prediction_tree(value, NULL, 0, &prediction,
                                                &err); /* takes value */
    MUST(status == err.code && (status == AISIM_OK) == (prediction.tree != NULL));
    aisim_prediction_free(&prediction);
    return 0;
}
