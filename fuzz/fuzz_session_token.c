/* SPDX-License-Identifier: Apache-2.0
 *
 * Any text as a session token: refused, or a token that is written as the same text, and that can be merged, compared
 * and routed by. Its signature is easy to guess here: what lies behind it is what is looked at. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/session/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int easy_mac(void *context, unsigned key, const void *message, size_t size, uint8_t *ret_mac)
{
    (void)context;
    (void)message;
    (void)size;
    memset(ret_mac, (int)key, WEIR_SESSION_MAC_SIZE);
    return 0;
}

static struct weir_known some_history(void)
{
    struct weir_known known = { 0 };
    const struct weir_history second = { .timeline = 2, .branch = 7, .count = 1, .ancestors = { { 1, 0x3000148, 0 } } };
    const struct weir_history fourth = { .timeline = 4,
                                         .count = 2,
                                         .ancestors = { { 1, 0x3000148, 0 }, { 2, 0x3000060, 7 } } };
    weir_known_history(&known, 1, &second);
    weir_known_history(&known, 1, &fourth);
    weir_known_run(&known, 1, 1, 0, 1, 0x3000100);
    return known;
}

/* Merged with itself it demands the same of each server. */
static void use(const struct weir_session_token *token)
{
    const struct weir_known known = some_history();
    struct weir_session_token twice = *token;
    static const struct weir_shown shown[3] = {
        { .system = 1,
          .position = 0x4000000,
          .flushed = 0x4000000,
          .run = 2,
          .timeline = 2,
          .branch = 7,
          .primary = true,
          .settled = true,

          .started = 5 },
        { .system = 1, .position = 0x3000148, .received = 0x3000148, .timeline = 1, .streams = true },
        { .system = 1, .position = UINT64_MAX - 7, .timeline = 4 },
    };
    struct weir_route_server servers[3] = {
        { .id = 1, .usable = true, .shown = shown[0] },
        { .id = 2, .usable = true, .shown = shown[1] },
        { .id = 3, .usable = true, .shown = shown[2] },
    };
    int error = weir_session_token_merge(&twice, token, &known);
    weir_assert(error == 0);
    for (unsigned i = 0; i < 3; i++) {
        enum weir_place_verdict one = weir_session_token_compare(token, &servers[i].shown, &known);
        enum weir_place_verdict other = weir_session_token_compare(&twice, &servers[i].shown, &known);
        weir_assert(one != WEIR_PLACE_OK || other == WEIR_PLACE_OK || servers[i].shown.primary);
        weir_assert(other != WEIR_PLACE_OK || one == WEIR_PLACE_OK || one == WEIR_PLACE_UNPROVEN);
        struct weir_session_token accepted = *token;
        (void)weir_session_token_accept(&accepted, &servers[i].shown, &known);
        weir_assert(accepted.count <= WEIR_SESSION_PLACES_MAX);
    }
    for (unsigned i = 0; i < 2 * 5 * 5; i++) {
        struct weir_route_request request = { .token = token,
                                              .known = &known,
                                              .servers = servers,
                                              .server_count = 3,
                                              .stay = 1,
                                              .wait_left_ns = i / 25,
                                              .strategy = i % 5,
                                              .behind = i / 5 % 5 };
        struct weir_route route = weir_route_choose(&request);
        weir_assert(route.server == WEIR_ROUTE_NONE || route.server < 3);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct weir_session_signer signer = { .key_count = 2, .key_ids = { 0, 1 }, .mac = easy_mac };
    for (int i = 0; i < 2; i++) {
        const struct weir_session_signer *by = i ? &signer : NULL;
        struct weir_session_token token;
        char text[WEIR_SESSION_TOKEN_MAX];
        size_t length;
        if (weir_session_token_read((const char *)data, size, by, &token) != 0)
            continue;
        int error = weir_session_token_write(&token, by, text, &length);
        weir_assert(error == 0 && length == size);
        weir_assert(i == 1 || memcmp(text, data, size) == 0); /* signed: perhaps by the other key */
        use(&token);
    }
    return 0;
}
