/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of the resource's half: weir/fence.h. */
#include "base/assert.h"
#include "weir/fence.h"

int weir_mark_install(struct weir_token *mark, struct weir_token token)
{
    if (weir_token_compare(token, *mark) < 0)
        return WEIR_EFENCED;
    *mark = token;
    weir_assert(weir_mark_check(mark, token) == 0); /* who has installed may write */
    return 0;
}

int weir_mark_check(const struct weir_token *mark, struct weir_token token)
{
    int order = weir_token_compare(token, *mark);
    if (order < 0)
        return WEIR_EFENCED;
    return order > 0 ? WEIR_ENOTINSTALLED : 0;
}
