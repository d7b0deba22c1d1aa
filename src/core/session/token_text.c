/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens as text: strict, so that a text has one token and a token one text. */
#include <string.h>

#include "base/assert.h"
#include "core/session/token.h"
#include "weir/error.h"

enum {
    VERSION_SIGNED = 1,
    VERSION_UNSIGNED = 2,
    HEAD_SIZE = 2,
    FLAG_RUN = 1,
    FLAG_STANDBY = 2,
    FLAG_BRANCH = 4,
    BRANCH_SIZE = 4,
    NUMBER_MAX = 10, /* 64 bits in groups of 7 */
    TIMELINE_MAX = 5,
    PLACE_MAX = 8 + 1 + TIMELINE_MAX + NUMBER_MAX + 8 + BRANCH_SIZE,
    BODY_MAX = 3 * NUMBER_MAX + 1 + WEIR_SESSION_PLACES_MAX * PLACE_MAX,
    BYTES_MAX = HEAD_SIZE + BODY_MAX + WEIR_SESSION_MAC_SIZE,
    READ_MAX = WEIR_SESSION_TOKEN_MAX / 4 * 3,
};
_Static_assert((BYTES_MAX * 4 + 2) / 3 <= WEIR_SESSION_TOKEN_MAX, "the longest token has to fit");
_Static_assert(WEIR_SESSION_TOKEN_MAX % 4 == 0, "READ_MAX is exact");
_Static_assert(WEIR_SESSION_PLACES_MAX < 0x80, "the number of places is one byte");

struct bytes {
    uint8_t *at, *end;
};

static void put_byte(struct bytes *out, uint8_t byte)
{
    weir_assert(out->at < out->end);
    *out->at++ = byte;
}

static void put_word(struct bytes *out, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        put_byte(out, (uint8_t)(value >> 8 * i));
}

static void put_number(struct bytes *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_byte(out, (uint8_t)(value | 0x80));
    put_byte(out, (uint8_t)value);
}

static void put_place(struct bytes *out, const struct weir_place *place)
{
    weir_assert(place->system != 0 && place->timeline != 0); /* or nobody could read it again */
    unsigned flags = (place->run != 0 ? FLAG_RUN : 0U) | (place->standby ? FLAG_STANDBY : 0U) |
                     (place->branch != 0 ? FLAG_BRANCH : 0U);
    put_word(out, place->system);
    put_byte(out, (uint8_t)flags);
    put_number(out, place->timeline);
    put_number(out, place->position);
    if (place->run != 0)
        put_word(out, place->run);
    for (unsigned i = 0; place->branch != 0 && i < BRANCH_SIZE; i++)
        put_byte(out, (uint8_t)(place->branch >> 8 * i));
}

static void put_body(struct bytes *out, const struct weir_session_token *token)
{
    weir_assert(token->count <= WEIR_SESSION_PLACES_MAX);
    put_number(out, token->wrote_ns);
    put_number(out, token->stamp_ns);
    put_number(out, token->clock);
    put_number(out, token->count);
    for (unsigned i = 0; i < token->count; i++)
        put_place(out, &token->places[i]);
}

/* What is still to be read of a body; `bad` once it was not such a thing. */
struct reader {
    const uint8_t *at, *end;
    bool bad;
};

static uint8_t get_byte(struct reader *in)
{
    if (in->at == in->end) {
        in->bad = true;
        return 0;
    }
    return *in->at++;
}

static uint64_t get_word(struct reader *in)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++)
        value |= (uint64_t)get_byte(in) << 8 * i;
    return value;
}

/* In as few bytes as it needs, at most `max`. */
static uint64_t get_number(struct reader *in, uint64_t max)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = get_byte(in);
        uint64_t group = byte & 0x7f;
        if (shift > 63 || group << shift >> shift != group || (byte == 0 && shift > 0))
            in->bad = true;
        if (in->bad)
            return 0;
        value |= group << shift;
        if (byte < 0x80)
            break;
    }
    in->bad |= value > max;
    return value;
}

static void get_place(struct reader *in, struct weir_place *place)
{
    *place = (struct weir_place){ .system = get_word(in) };
    uint8_t flags = get_byte(in);
    place->standby = (flags & FLAG_STANDBY) != 0;
    place->timeline = (uint32_t)get_number(in, UINT32_MAX);
    place->position = get_number(in, UINT64_MAX);
    if (flags & FLAG_RUN) {
        place->run = get_word(in);
        in->bad |= place->run == 0;
    }
    if (flags & FLAG_BRANCH) {
        for (unsigned i = 0; i < BRANCH_SIZE; i++)
            place->branch |= (uint32_t)get_byte(in) << 8 * i;
        in->bad |= place->branch == 0 || place->timeline == 1;
    }
    in->bad |= flags > (FLAG_RUN | FLAG_STANDBY | FLAG_BRANCH) || place->system == 0 || place->timeline == 0;
}

static int get_body(const uint8_t *body, size_t size, struct weir_session_token *ret_token)
{
    struct reader in = { .at = body, .end = body + size };
    struct weir_session_token token = { 0 };
    token.wrote_ns = get_number(&in, UINT64_MAX);
    token.stamp_ns = get_number(&in, UINT64_MAX);
    token.clock = get_number(&in, UINT64_MAX);
    token.count = (unsigned)get_number(&in, WEIR_SESSION_PLACES_MAX);
    for (unsigned i = 0; !in.bad && i < token.count; i++)
        get_place(&in, &token.places[i]);
    weir_assert(in.at <= in.end);
    if (in.bad || in.at != in.end)
        return WEIR_EPROTO;
    *ret_token = token;
    return 0;
}

/* ---- base64url ---- */

static size_t encode(const uint8_t *bytes, size_t size, char *text)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t length = 0;
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < size; i++) {
        bits = bits << 8 | bytes[i];
        for (have += 8; have >= 6; have -= 6)
            text[length++] = alphabet[bits >> (have - 6) & 63];
    }
    weir_assert(have < 6 && length * 6 + have == size * 8);
    if (have > 0)
        text[length++] = alphabet[bits << (6 - have) & 63];
    return length;
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* Bits left over have to be 0, and less than a digit's. */
static int decode(const char *text, size_t length, uint8_t bytes[READ_MAX], size_t *ret_size)
{
    size_t size = 0;
    uint32_t bits = 0;
    unsigned have = 0;
    if (length > WEIR_SESSION_TOKEN_MAX || length % 4 == 1)
        return WEIR_EPROTO;
    for (size_t i = 0; i < length; i++) {
        int digit = digit_of(text[i]);
        if (digit < 0)
            return WEIR_EPROTO;
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have >= 8) {
            have -= 8;
            bytes[size++] = (uint8_t)(bits >> have);
        }
    }
    if ((bits & ((1U << have) - 1)) != 0)
        return WEIR_EPROTO;
    weir_assert(size <= READ_MAX && have < 8);
    *ret_size = size;
    return 0;
}

/* ---- the whole ---- */

int weir_session_token_write(const struct weir_session_token *token, const struct weir_session_signer *signer,
                             char *text, size_t *ret_size)
{
    uint8_t bytes[BYTES_MAX];
    struct bytes out = { bytes, bytes + BYTES_MAX - WEIR_SESSION_MAC_SIZE };
    put_byte(&out, signer ? VERSION_SIGNED : VERSION_UNSIGNED);
    put_byte(&out, signer ? signer->key_ids[0] : 0);
    put_body(&out, token);
    size_t size = (size_t)(out.at - bytes);
    if (signer) {
        int error = signer->mac(signer->context, 0, bytes, size, out.at);
        if (error != 0)
            return error;
        size += WEIR_SESSION_MAC_SIZE;
    }
    *ret_size = encode(bytes, size, text);
    return 0;
}

static bool is_equal(const uint8_t a[WEIR_SESSION_MAC_SIZE], const uint8_t b[WEIR_SESSION_MAC_SIZE])
{
    unsigned differ = 0;
    for (unsigned i = 0; i < WEIR_SESSION_MAC_SIZE; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return differ == 0;
}

/* `size` bytes, followed by their signature. */
static int verify(const uint8_t *bytes, size_t size, const struct weir_session_signer *signer)
{
    weir_assert(size >= HEAD_SIZE && bytes[0] == VERSION_SIGNED);
    uint8_t mac[WEIR_SESSION_MAC_SIZE];
    unsigned key = 0;
    while (key < signer->key_count && signer->key_ids[key] != bytes[1])
        key++;
    if (key == signer->key_count)
        return WEIR_EFORGED;
    int error = signer->mac(signer->context, key, bytes, size, mac);
    if (error != 0)
        return error;
    return is_equal(mac, bytes + size) ? 0 : WEIR_EFORGED;
}

int weir_session_token_read(const char *text, size_t size, const struct weir_session_signer *signer,
                            struct weir_session_token *ret_token)
{
    uint8_t bytes[READ_MAX];
    size_t length;
    int error = decode(text, size, bytes, &length);
    if (error != 0)
        return error;
    if (length < HEAD_SIZE || (bytes[0] != VERSION_SIGNED && bytes[0] != VERSION_UNSIGNED))
        return WEIR_EPROTO;
    if ((bytes[0] == VERSION_SIGNED) != (signer != NULL))
        return WEIR_EFORGED;
    if (!signer)
        return bytes[1] == 0 ? get_body(bytes + HEAD_SIZE, length - HEAD_SIZE, ret_token) : WEIR_EPROTO;
    if (length < HEAD_SIZE + WEIR_SESSION_MAC_SIZE)
        return WEIR_EPROTO;
    length -= WEIR_SESSION_MAC_SIZE;
    error = verify(bytes, length, signer);
    return error != 0 ? error : get_body(bytes + HEAD_SIZE, length - HEAD_SIZE, ret_token);
}
