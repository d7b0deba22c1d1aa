/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/notes.h"

const char *weir_note_unasked(const struct weir_config *config)
{
    bool listens = config->resp.kind != WEIR_ADDRESS_OFF || config->http.kind != WEIR_ADDRESS_OFF;
    if (config->tokens_count == 0 || config->auth_required != WEIR_AUTH_AUTO || !listens || !config->resp.loopback ||
        !config->http.loopback) /* what is off counts as loopback */
        return NULL;
    return "nobody is asked for a token: all listeners are on loopback (auth: { required: always } asks there too)";
}
