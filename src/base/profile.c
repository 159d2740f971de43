/* profile.c - see profile.h. */
#include "base/profile.h"

#include <string.h>
#include <time.h>

static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void aisim_profile_start(aisim_profile *profile)
{
    memset(profile, 0, sizeof *profile);
    profile->current = AISIM_PART_SIM;
    profile->calls[AISIM_PART_SIM] = 1;
    profile->since_ns = clock_ns();
}

aisim_part aisim_profile_switch(aisim_profile *profile, aisim_part to)
{
    int64_t now_ns = clock_ns();
    aisim_part before = profile->current;
    profile->ns[before] += now_ns - profile->since_ns;
    profile->since_ns = now_ns;
    profile->current = to;
    return before;
}

const char *aisim_part_text(aisim_part part)
{
    static const char *const texts[] = {
#define X(name, text) text,
        AISIM_PART_LIST(X)
#undef X
    };
    return texts[part];
}
