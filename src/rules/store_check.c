/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of what a store takes, and of what it believes: a row is judged by the rules that it was written by, for a
 * store may be anybody's by the time it is read. Called by store.c for arguments, by the stores for rows, by kept.c for
 * the checksum. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/fault.h"
#include "base/fault_format.h"
#include "rules/config.h"
#include "rules/store_inside.h"
#include "wire/text.h"

enum { READABLE_MAX = WEIR_CONFIG_BYTES_MAX };
_Static_assert(WEIR_RULE_TEXT_MAX == READABLE_MAX, "what is stored can be read as a configuration");

uint64_t weir_rule_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* A signal ends it early, which is no matter: who sleeps here looks again. */
void weir_rule_sleep_until(uint64_t until_ns)
{
    const struct timespec until = { .tv_sec = (time_t)(until_ns / UINT64_C(1000000000)),
                                    .tv_nsec = (long)(until_ns % UINT64_C(1000000000)) };
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* ---- texts ---- */

/* Of one line: no C0, no DEL, no C1 (U+0080 to U+009F, in UTF-8 c2 80 to c2 9f), none of the two that Unicode ends
 * lines with (U+2028, U+2029). */
static bool is_line(const void *data, size_t size)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < size; i++) {
        if (at[i] < 0x20 || at[i] == 0x7f || (at[i] == 0xc2 && i + 1 < size && at[i + 1] < 0xa0))
            return false;
        if (at[i] == 0xe2 && i + 2 < size && at[i + 1] == 0x80 && (at[i + 2] == 0xa8 || at[i + 2] == 0xa9))
            return false;
    }
    return weir_text_is_utf8(data, size);
}

bool weir_rule_author_valid(const void *data, size_t size)
{
    return size >= 1 && size <= WEIR_RULE_AUTHOR_MAX && is_line(data, size);
}

bool weir_rule_comment_valid(const void *data, size_t size)
{
    return size >= 1 && size <= WEIR_RULE_COMMENT_MAX && is_line(data, size);
}

bool weir_rule_node_valid(const void *data, size_t size)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.";
    const char *at = data;
    if (size < 1 || size > WEIR_RULE_NODE_MAX)
        return false;
    for (size_t i = 0; i < size; i++)
        if (at[i] == '\0' || !strchr(allowed, at[i]))
            return false;
    return true;
}

/* ---- changes ---- */

const char *weir_rule_kind_name(enum weir_rule_kind kind)
{
    switch (kind) {
    case WEIR_RULE_APPLIED:
        return "applied";
    case WEIR_RULE_ROLLBACK:
        return "rollback";
    case WEIR_RULE_IMPORT:
        return "import";
    case WEIR_RULE_PROPOSED:
        return "proposed";
    case WEIR_RULE_APPROVED:
        return "approved";
    }
    return "unknown";
}

bool weir_rule_kind_copies(enum weir_rule_kind kind)
{
    return kind == WEIR_RULE_ROLLBACK || kind == WEIR_RULE_APPROVED;
}

/* Embeds or overrides the direction of writing (U+202A to U+202E, U+2066 to U+2069): what is told beside it, such as
 * whose token it was, would be shown elsewhere than it stands. Stored by others it is believed. */
static bool turns_writing(const char *text)
{
    for (const char *at = text; (at = strchr(at, '\xe2')) != NULL; at++) {
        const uint8_t second = (uint8_t)at[1], third = second ? (uint8_t)at[2] : 0;
        if ((second == 0x80 && third >= 0xaa && third <= 0xae) || (second == 0x81 && third >= 0xa6 && third <= 0xa9))
            return true;
    }
    return false;
}

static int check_line(const char *text, const char *field, bool (*valid)(const void *, size_t), unsigned bytes_max,
                      struct weir_fault *ret_fault)
{
    size_t size = text ? strlen(text) : 0;
    if (text && turns_writing(text))
        return weir_fault_set(ret_fault, WEIR_EINVAL, field,
                              "must not turn the direction of writing (U+202A to U+202E, U+2066 to U+2069)");
    if (size > 0 && text[strspn(text, " ")] == '\0')
        return weir_fault_set(ret_fault, WEIR_EINVAL, field, "must say something: it is blank");
    if (valid(text ? text : "", size))
        return 0;
    if (size < 1 || size > bytes_max)
        return weir_fault_format(ret_fault, WEIR_ERANGE, field, "must be 1 to %u bytes; it has %zu", bytes_max, size);
    return weir_fault_set(ret_fault, WEIR_EINVAL, field, "must be one line of UTF-8 without control characters");
}

int weir_rule_change_check(const struct weir_rule_change *change, struct weir_fault *ret_fault)
{
    static const uint8_t none[WEIR_RULE_CHANGE_SIZE];
    const bool copies = weir_rule_kind_copies(change->kind);
    if (strcmp(weir_rule_kind_name(change->kind), "unknown") == 0)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "kind",
                              "must be applied, rollback, import, proposed or approved");
    if (change->expected > WEIR_RULE_VERSIONS_MAX)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "expected", "must be 0 to %d", WEIR_RULE_VERSIONS_MAX);
    if (copies && (change->of < 1 || change->of > change->expected))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "of", "must be 1 to the newest version");
    if (change->kind == WEIR_RULE_APPROVED && change->of != change->expected)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "of", "must be the newest version, to be approved");
    if (!copies && change->of != 0)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "of", "is of a rollback or an approval");
    if (copies && change->text.size > 0)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "text", "is that of version `of`");
    if (!copies && (change->text.size < 1 || change->text.size > WEIR_RULE_TEXT_MAX))
        return weir_fault_format(ret_fault, WEIR_ERANGE, "text", "must be 1 to %zu bytes; it has %zu",
                                 WEIR_RULE_TEXT_MAX, change->text.size);
    if (change->wall_ns > INT64_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "wall_ns", "must be at most 2^63 - 1");
    if (memcmp(change->change, none, sizeof none) ==
        0) /* who forgot it would find another's change, and call it done */
        return weir_fault_set(ret_fault, WEIR_EINVAL, "change", "must be random, not zeros");
    int error = check_line(change->author, "author", weir_rule_author_valid, WEIR_RULE_AUTHOR_MAX, ret_fault);
    return error ? error
                 : check_line(change->comment, "comment", weir_rule_comment_valid, WEIR_RULE_COMMENT_MAX, ret_fault);
}

int weir_rule_change_id(uint8_t ret_change[WEIR_RULE_CHANGE_SIZE])
{
    uint8_t random[WEIR_RULE_CHANGE_SIZE];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return WEIR_EIO;
    memcpy(ret_change, random, sizeof random);
    return 0;
}

int weir_rule_checksum(struct weir_slice text, uint8_t ret_checksum[WEIR_RULE_CHECKSUM_SIZE])
{
    return EVP_Digest(text.data, text.size, ret_checksum, NULL, EVP_sha256(), NULL) ? 0 : WEIR_ENOMEM;
}

bool weir_rule_head_same(const struct weir_rule_head *one, const struct weir_rule_head *other)
{
    return one->number == other->number && memcmp(one->checksum, other->checksum, sizeof one->checksum) == 0 &&
           memcmp(one->store, other->store, sizeof one->store) == 0;
}

/* ---- rows ---- */

bool weir_rule_version_valid(const struct weir_rule_version *version)
{
    bool copies = weir_rule_kind_copies(version->kind);
    return version->number >= 1 && version->number <= WEIR_RULE_VERSIONS_MAX &&
           strcmp(weir_rule_kind_name(version->kind), "unknown") != 0 &&
           (copies ? version->of >= 1 && version->of < version->number : version->of == 0) &&
           version->wall_ns <= INT64_MAX && version->text_size >= 1 && version->text_size <= WEIR_RULE_TEXT_MAX &&
           weir_rule_author_valid(version->author, strlen(version->author)) &&
           weir_rule_comment_valid(version->comment, strlen(version->comment));
}

bool weir_rule_told_valid(const struct weir_rule_told *told)
{
    return weir_rule_node_valid(told->node, strnlen(told->node, sizeof told->node)) && told->version >= 1 &&
           told->version <= WEIR_RULE_VERSIONS_MAX && told->since_ns <= INT64_MAX;
}

int weir_rule_notes_add(struct weir_rule_notes *notes, const struct weir_rule_told *told)
{
    if (notes->count == notes->room) {
        size_t room = notes->room ? 2 * notes->room : 64;
        struct weir_rule_told *list = realloc(notes->list, room * sizeof *list);
        if (!list)
            return WEIR_ENOMEM;
        notes->list = list;
        notes->room = room;
    }
    notes->list[notes->count++] = *told;
    return 0;
}

bool weir_rule_is_of(const struct weir_rule_version *version, const struct weir_rule_change *change,
                     const uint8_t *checksum)
{
    return version->number == change->expected + 1 && version->kind == change->kind && version->of == change->of &&
           strcmp(version->author, change->author) == 0 && strcmp(version->comment, change->comment) == 0 &&
           (weir_rule_kind_copies(change->kind) || memcmp(version->checksum, checksum, sizeof version->checksum) == 0);
}

int weir_rule_schema_fault(unsigned found, unsigned known, struct weir_fault *ret_fault)
{
    if (found > known)
        return weir_fault_format(ret_fault, WEIR_ERANGE, "schema",
                                 "the store has schema %u, this weir knows %u: use the weir that wrote it, or let that "
                                 "one bring it back to %u",
                                 found, known, known);
    return weir_fault_format(ret_fault, WEIR_ERANGE, "schema",
                             "the store has schema %u, this weir needs %u: it has to be brought up to it first", found,
                             known);
}
