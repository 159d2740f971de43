/* compare_features.c - what the generator may use, by name. */
#include "compare.h"

#include <string.h>

const char *const compare_feature_names[COMPARE_FEATURE_COUNT] = {
#define X(name, on) #name,
    COMPARE_FEATURES(X)
#undef X
};

uint64_t compare_features_default(void)
{
    uint64_t features = 0;
#define X(name, on) features |= (on) ? UINT64_C(1) << COMPARE_WITH_##name : 0;
    COMPARE_FEATURES(X)
#undef X
    return features;
}

static uint32_t feature_of(const char *name, size_t len)
{
    for (uint32_t i = 0; i < COMPARE_FEATURE_COUNT; i++) {
        if (strlen(compare_feature_names[i]) == len &&
            strncmp(compare_feature_names[i], name, len) == 0) {
            return i;
        }
    }
    return COMPARE_NONE;
}

const char *compare_features_parse(const char *list, uint64_t *features)
{
    bool relative = *list == '+' || *list == '-';
    *features = relative ? compare_features_default() : 0;
    while (*list != '\0') {
        bool off = *list == '-';
        const char *name = list + (*list == '+' || *list == '-');
        size_t len = strcspn(name, ",");
        if (strcmp(name, "all") == 0) {
            *features = (UINT64_C(1) << COMPARE_FEATURE_COUNT) - 1;
        } else if (len > 0) {
            uint32_t i = feature_of(name, len);
            if (i == COMPARE_NONE) {
                return name;
            }
            uint64_t bit = UINT64_C(1) << i;
            *features = off ? *features & ~bit : *features | bit;
        }
        list = name + len + (name[len] == ',');
    }
    return NULL;
}
