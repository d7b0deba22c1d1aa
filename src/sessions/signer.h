/* SPDX-License-Identifier: Apache-2.0
 *
 * HMAC-SHA-256 for session tokens, by libcrypto; the keys are prepared once. Any thread may sign. */
#pragma once

#include "core/session/token.h"

struct weir_signer;

/* WEIR_EINVAL (ids that repeat), WEIR_ERANGE (count, or a key's size), WEIR_ENOMEM. */
int weir_signer_create(const struct weir_session_key *keys, unsigned count, struct weir_signer **ret_signer,
                       struct weir_fault *ret_fault);
void weir_signer_destroy(struct weir_signer *signer); /* wipes the keys; NULL is allowed */
const struct weir_session_signer *weir_signer_of(const struct weir_signer *signer);
