/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the body of a call of /v1/sessions: a question within its bounds, or a fault that names a place. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_bytes(struct weir_slice slice, size_t size_max)
{
    volatile uint8_t sum = 0; /* every byte of it can be read */
    weir_assert(slice.size <= size_max);
    for (size_t i = 0; i < slice.size; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)slice.data)[i]);
}

static void check(const struct weir_session_question *question, enum weir_session_call call)
{
    if (question->has_user)
        weir_assert(question->user.size >= 1);
    check_bytes(question->user, WEIR_SESSION_ID_MAX);
    check_bytes(question->token, WEIR_SESSION_TOKEN_MAX);
    weir_assert(question->avoid_count <= WEIR_SESSION_AVOID_MAX && question->places_count <= WEIR_SESSION_SEEN_MAX);
    weir_assert(question->wait_ms <= WEIR_SESSION_WAIT_MAX_MS);
    for (unsigned i = 0; i < question->avoid_count; i++)
        check_bytes(question->avoid[i], SIZE_MAX);
    for (unsigned i = 0; i < question->places_count; i++) {
        weir_assert(question->places[i].size >= 1);
        check_bytes(question->places[i], WEIR_SESSION_PLACE_MAX);
    }
    weir_assert(call != WEIR_SESSION_CALL_SEEN || question->places_count >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (unsigned call = WEIR_SESSION_CALL_ROUTE; call <= WEIR_SESSION_CALL_ACCEPT; call++) {
        struct weir_session_question question;
        struct weir_fault fault = { { 0 }, { 0 } };
        uint8_t *copy = malloc(size ? size : 1); /* exactly as many, so that ASan sees a look beyond them */
        memcpy(copy, data, size);
        int error = weir_session_question_parse((enum weir_session_call)call, copy, size, &question, &fault);
        weir_assert(!error || (fault.field[0] && fault.text[0]));
        if (!error) {
            check(&question, (enum weir_session_call)call);
            weir_session_question_deinit(&question);
        }
        free(copy);
    }
    return 0;
}
