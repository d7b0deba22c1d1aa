/* SPDX-License-Identifier: Apache-2.0
 *
 * What the stores of users share, wherever each of them is: a store may be in a module that has no other. */
#include "sessions/users_inside.h"

int weir_users_init(struct weir_users *users, const struct weir_users_ops *ops,
                    const struct weir_users_options *options)
{
    users->ops = ops;
    users->timeout_ns = options->timeout_ns;
    users->ttl_ns = options->ttl_ns;
    return weir_users_floor_init(&users->floor, options);
}

void weir_users_deinit(struct weir_users *users)
{
    weir_users_floor_deinit(&users->floor);
}

bool weir_users_within(const struct weir_session_token *part, const struct weir_session_token *whole)
{
    if (part->wrote_ns > whole->wrote_ns || part->stamp_ns > whole->stamp_ns || part->clock > whole->clock)
        return false;
    for (unsigned i = 0; i < part->count; i++) {
        unsigned j = 0;
        while (j < whole->count && !weir_place_same(&part->places[i], &whole->places[j]))
            j++;
        if (j == whole->count)
            return false;
    }
    return true;
}
