/* timing_simple.c - models without operations: fixed, linear, polynomial, user function. */
#include "timing/timing.h"

#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "timing/timing_class.h"

/* A pass has a prefill part when it computes prompt tokens, a decode part when it has decode
 * items (E-O4). */
static bool has_prefill(const aisim_pass_shape *shape)
{
    return shape->n_prefill > 0 && shape->new_tokens > 0;
}

static void free_plain(aisim_timing *timing)
{
    aisim_free(timing);
}

static aisim_status check_coefficient(const char *model, const char *key, double value,
                                      aisim_error *err)
{
    if (!(value >= 0) || !isfinite(value)) {
        return aisim_fail(err, AISIM_ERANGE, "timing %s: %s = %g must be finite and >= 0", model,
                          key, value);
    }
    return AISIM_OK;
}

/* fixed */

typedef struct fixed_timing {
    aisim_timing base;
    double prefill_ms, decode_ms;
} fixed_timing;

static double fixed_pass(aisim_timing *timing, const aisim_pass_shape *shape)
{
    const fixed_timing *self = (const fixed_timing *)timing;
    return (has_prefill(shape) ? self->prefill_ms : 0) +
           (shape->n_decode > 0 ? self->decode_ms : 0);
}

static const aisim_timing_class fixed_class = {
    .name = "fixed", .pass_ms = fixed_pass, .free = free_plain};

aisim_status aisim_timing_fixed(double prefill_ms, double decode_ms, aisim_timing **out,
                                aisim_error *err)
{
    *out = NULL;
    aisim_status status = check_coefficient("fixed", "prefill_ms", prefill_ms, err);
    if (status == AISIM_OK) {
        status = check_coefficient("fixed", "decode_ms", decode_ms, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    fixed_timing *self = aisim_alloc_zero(1, sizeof *self);
    aisim_timing_init(&self->base, &fixed_class, true);
    self->prefill_ms = prefill_ms;
    self->decode_ms = decode_ms;
    *out = &self->base;
    return AISIM_OK;
}

/* linear */

typedef struct linear_timing {
    aisim_timing base;
    aisim_timing_linear_law law;
} linear_timing;

static double linear_pass(aisim_timing *timing, const aisim_pass_shape *shape)
{
    const aisim_timing_linear_law *law = &((const linear_timing *)timing)->law;
    bool prefill = has_prefill(shape);
    double new_tokens = prefill ? (double)shape->new_tokens : 0;
    double context = shape->n_decode > 0 ? (double)shape->context_tokens : 0;
    return law->base_ms + law->per_prefill_token_ms * new_tokens +
           law->per_decode_ms * (double)shape->n_decode + law->per_context_token_ms * context;
}

static const aisim_timing_class linear_class = {
    .name = "linear", .pass_ms = linear_pass, .free = free_plain};

aisim_status aisim_timing_linear(const aisim_timing_linear_law *law, aisim_timing **out,
                                 aisim_error *err)
{
    *out = NULL;
    const struct {
        const char *key;
        double value;
    } coefficients[] = {{"base_ms", law->base_ms},
                        {"per_prefill_token_ms", law->per_prefill_token_ms},
                        {"per_decode_ms", law->per_decode_ms},
                        {"per_context_token_ms", law->per_context_token_ms}};
    for (size_t i = 0; i < sizeof coefficients / sizeof coefficients[0]; i++) {
        aisim_status status =
            check_coefficient("linear", coefficients[i].key, coefficients[i].value, err);
        if (status != AISIM_OK) {
            return status;
        }
    }
    linear_timing *self = aisim_alloc_zero(1, sizeof *self);
    aisim_timing_init(&self->base, &linear_class, true);
    self->law = *law;
    *out = &self->base;
    return AISIM_OK;
}

/* polynomial (timing.md §6) */

typedef struct polynomial_timing {
    aisim_timing base;
    double kv_capacity_tokens;
} polynomial_timing;

static double polynomial_pass(aisim_timing *timing, const aisim_pass_shape *shape)
{
    const polynomial_timing *self = (const polynomial_timing *)timing;
    double ms = 0;
    if (has_prefill(shape)) {
        double t = (double)shape->new_tokens;
        ms += 4.209989e-7 * t * t + 1.518344e-2 * t + 16.50142;
    }
    if (shape->n_decode > 0) {
        double u = fmin(1.0, (double)shape->context_tokens / self->kv_capacity_tokens);
        ms += fmax(1.0, -25.74 * u * u + 54.01 * u + 5.74);
    }
    return ms;
}

static const aisim_timing_class polynomial_class = {
    .name = "polynomial", .pass_ms = polynomial_pass, .free = free_plain};

aisim_status aisim_timing_polynomial(uint64_t kv_capacity_tokens, aisim_timing **out,
                                     aisim_error *err)
{
    *out = NULL;
    if (kv_capacity_tokens == 0) {
        return aisim_fail(err, AISIM_ERANGE,
                          "timing polynomial: the KV capacity must be at least one token");
    }
    polynomial_timing *self = aisim_alloc_zero(1, sizeof *self);
    aisim_timing_init(&self->base, &polynomial_class, true);
    self->kv_capacity_tokens = (double)kv_capacity_tokens;
    *out = &self->base;
    return AISIM_OK;
}

/* user function: pure ones go through a direct-mapped table whose entries carry the whole key */

enum { MEMO_SLOTS = 4096 };

typedef struct callback_memo {
    aisim_pass_shape shape; /* n_prefill = n_decode = 0: empty slot (such passes never get here) */
    double ms;
} callback_memo;

typedef struct callback_timing {
    aisim_timing base;
    aisim_timing_function function;
    void *context;
    callback_memo *memo; /* MEMO_SLOTS entries, NULL unless pure and without items */
} callback_timing;

static uint64_t shape_hash(const aisim_pass_shape *s)
{
    uint64_t h = aisim_mix64(s->n_prefill + (s->n_decode << 32));
    h = aisim_mix64(h ^ s->new_tokens);
    h = aisim_mix64(h ^ s->past_tokens);
    h = aisim_mix64(h ^ s->context_tokens);
    return aisim_mix64(h ^ s->verify_width);
}

static bool shape_equal(const aisim_pass_shape *a, const aisim_pass_shape *b)
{
    return a->n_prefill == b->n_prefill && a->new_tokens == b->new_tokens &&
           a->past_tokens == b->past_tokens && a->n_decode == b->n_decode &&
           a->context_tokens == b->context_tokens && a->verify_width == b->verify_width;
}

static double callback_call(callback_timing *self, const aisim_pass_shape *shape,
                            const aisim_pass_items *items)
{
    double ms = NAN;
    aisim_status status = self->function(self->context, shape, items, &ms, &self->base.error);
    if (status != AISIM_OK) {
        aisim_fail(&self->base.error, status, "the timing function failed");
        return NAN;
    }
    if (!(ms > 0) || !isfinite(ms)) { /* lua-api.md §9 */
        aisim_fail(&self->base.error, AISIM_ECALLBACK,
                   "the timing function returned %g ms for n_prefill = %llu, new_tokens = %llu, "
                   "past_tokens = %llu, n_decode = %llu, context_tokens = %llu; expected a finite "
                   "number above 0",
                   ms, (unsigned long long)shape->n_prefill, (unsigned long long)shape->new_tokens,
                   (unsigned long long)shape->past_tokens, (unsigned long long)shape->n_decode,
                   (unsigned long long)shape->context_tokens);
        return NAN;
    }
    return ms;
}

static double callback_pass(aisim_timing *timing, const aisim_pass_shape *shape)
{
    callback_timing *self = (callback_timing *)timing;
    if (self->memo == NULL) {
        return callback_call(self, shape, NULL);
    }
    callback_memo *slot = &self->memo[shape_hash(shape) % MEMO_SLOTS];
    if (!shape_equal(&slot->shape, shape)) {
        double ms = callback_call(self, shape, NULL);
        if (isnan(ms)) {
            return ms;
        }
        slot->shape = *shape;
        slot->ms = ms;
    }
    return slot->ms;
}

static double callback_items(aisim_timing *timing, const aisim_pass_shape *shape,
                             const aisim_pass_items *items)
{
    return callback_call((callback_timing *)timing, shape, items);
}

static void callback_free(aisim_timing *timing)
{
    callback_timing *self = (callback_timing *)timing;
    aisim_free(self->memo);
    aisim_free(self);
}

static const aisim_timing_class callback_class = {.name = "function",
                                                  .pass_ms = callback_pass,
                                                  .items_ms = callback_items,
                                                  .free = callback_free};

aisim_status aisim_timing_callback(aisim_timing_function function, void *context,
                                   aisim_timing_traits traits, aisim_timing **out, aisim_error *err)
{
    *out = NULL;
    if (function == NULL) {
        return aisim_fail(err, AISIM_EINVAL, "timing: the function is missing");
    }
    callback_timing *self = aisim_alloc_zero(1, sizeof *self);
    aisim_timing_init(&self->base, &callback_class, traits.pure);
    self->base.wants_items = traits.items;
    self->function = function;
    self->context = context;
    bool memo = traits.pure && !traits.items;
    self->memo = memo ? aisim_alloc_zero(MEMO_SLOTS, sizeof *self->memo) : NULL;
    *out = &self->base;
    return AISIM_OK;
}
