/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts are read from the newest one back, for only a text says whom it is for; proposals are passed over by their kind
 * alone, however many there are. Called by follower.c. */
#include "serve/follower_seek.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/checked.h"
#include "rules/addressed.h"

static uint64_t soon(const struct weir_follower_seeker *seeker)
{
    return uv_hrtime() + seeker->timeout_ns;
}

/* The version found->head.number; its text stays NULL if it is not one for this node. */
static int look_at(const struct weir_follower_seeker *seeker, struct weir_follower_found *found, bool *ret_proposed,
                   struct weir_fault *ret_fault)
{
    struct weir_rule_version version;
    char *text = NULL;
    bool ours = false;
    int error = weir_rule_store_read(seeker->store, found->head.number, soon(seeker), &version, &text, ret_fault);
    if (error)
        return error;
    memcpy(found->head.checksum, version.checksum, sizeof(found->head.checksum));
    *ret_proposed = version.kind == WEIR_RULE_PROPOSED;
    if (!*ret_proposed)
        error = weir_rule_text_is_for((struct weir_slice){ text, version.text_size }, seeker->node, &ours);
    if (!error && !*ret_proposed && !ours)
        found->others = weir_max_u64(found->others, version.number);
    if (error || !ours) {
        free(text);
        return error;
    }
    found->text = text;
    found->size = version.text_size;
    found->made_ns = version.wall_ns;
    return 0;
}

int weir_follower_seek(const struct weir_follower_seeker *seeker, const struct weir_rule_head *from, uint64_t down_to,
                       struct weir_follower_found *ret_found, struct weir_fault *ret_fault)
{
    struct weir_follower_found found = { .head = *from };
    int error = 0;
    for (unsigned back = 0; !error && !found.text && found.head.number > down_to && back < WEIR_FOLLOWER_BACK_MAX;) {
        bool proposed = false;
        error = look_at(seeker, &found, &proposed, ret_fault);
        if (error || found.text)
            break;
        back += !proposed;
        found.head.number--;
        if (proposed)
            error = weir_rule_store_decided(seeker->store, found.head.number, soon(seeker), &found.head.number,
                                            ret_fault);
    }
    if (!error)
        *ret_found = found;
    return error;
}

bool weir_follower_is_behind(const struct weir_rule_head *newest, uint64_t looked, const struct weir_rule_head *kept)
{
    if (memcmp(newest->store, kept->store, sizeof(kept->store)) != 0)
        return false;
    return kept->number > looked || (kept->number == newest->number && !weir_rule_head_same(kept, newest));
}
