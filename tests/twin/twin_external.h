/* twin_external.h - the twin's scheduler with a connector outside of it (facts 11, 20, 37, 79, 82).
 *
 * After the device lookup the scheduler asks the connector what it has beyond the hit. Three
 * answers: so many tokens at once; so many by an asynchronous load; ask me again. A load takes its
 * device blocks immediately, nothing of them can be found by others until it has ended, and it
 * begins only where it leaves room for what unfinished prefills and other loads still need (E-R4,
 * fact 20). The request waits meanwhile in the second queue, without a seat and without budget, and
 * so does one that is to be asked again; both keep their order, stand before the waiting queue and
 * do not block it.
 *
 * A finished request whose blocks a transfer still uses keeps them (fact 37, R24 `wait`). The twin
 * with a connector has neither a host tier of its own nor a state cache. Only the twin has this;
 * what the connector answers is the business of connector_double.lua. */
#ifndef AISIM_TWIN_EXTERNAL_H
#define AISIM_TWIN_EXTERNAL_H

#include "twin.h"

typedef struct twin_offer {
    uint32_t tokens; /**< beyond the device hit; more than the request has left is cut */
    bool async; /**< a load; otherwise they are there at once and the last token is never among them
                 */
    bool ask_again; /**< nothing is known yet */
} twin_offer;

/** What the scheduler asks. The functions must not call the twin's commands. */
typedef struct twin_connector {
    void *context;
    /** @param local tokens found on the device. Asked at each examination of a waiting request
     * until it is admitted or its load begins, again after a preemption. */
    twin_offer (*match)(void *context, uint32_t serial, uint32_t local);
    /** A request has ended. @return true: it keeps its blocks until twin_let_go(). May be NULL. */
    bool (*keeps)(void *context, uint32_t serial);
    bool drop_cancelled; /**< R24 `drop`: the blocks of a cancelled load are free at once */
    bool whole_block; /**< R22 `block`: after a load of everything the last block is computed again,
                           not the last token alone */
} twin_connector;

/** Before the first submission. match == NULL takes the connector away. */
void twin_set_connector(twin *t, const twin_connector *connector);

/** The load of this request has ended; its next examination makes the blocks findable (fact 79). A
 *  request that has ended meanwhile gives them back. @return false: there is no such load. */
bool twin_received(twin *t, uint32_t serial);

/** Blocks kept by a finished request are given back. @return false for a no-op. */
bool twin_let_go(twin *t, uint32_t serial);

/** Preempts a running request between two passes, as by another that needs its blocks (E-V2);
 * results under way still land. @return false: it does not run. */
bool twin_preempt_now(twin *t, uint32_t id);

#endif
