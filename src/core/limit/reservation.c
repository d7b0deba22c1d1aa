/* SPDX-License-Identifier: Apache-2.0
 *
 * The moves that there are, and the arithmetic of what is due. Called by limits/reserve.c. */
#include "core/limit/reservation.h"

#include "base/checked.h"

/* Whence whither. */
static const bool moves[WEIR_RESERVATION_STATES][WEIR_RESERVATION_STATES] = {
    [WEIR_RESERVATION_NONE] = { [WEIR_RESERVATION_OPEN] = true },
    [WEIR_RESERVATION_OPEN] = { [WEIR_RESERVATION_OPEN] = true, /* extended */
                                [WEIR_RESERVATION_SETTLED] = true,
                                [WEIR_RESERVATION_RELEASED] = true,
                                [WEIR_RESERVATION_KEPT] = true },
    [WEIR_RESERVATION_RELEASED] = { [WEIR_RESERVATION_SETTLED] = true, [WEIR_RESERVATION_NONE] = true },
    [WEIR_RESERVATION_KEPT] = { [WEIR_RESERVATION_SETTLED] = true, [WEIR_RESERVATION_NONE] = true },
    [WEIR_RESERVATION_SETTLED] = { [WEIR_RESERVATION_NONE] = true },
};

static void move(struct weir_reservation_life *life, enum weir_reservation_state to)
{
    weir_assert((unsigned)life->state < WEIR_RESERVATION_STATES && (unsigned)to < WEIR_RESERVATION_STATES);
    weir_assert(moves[life->state][to]);
    weir_assert(to == WEIR_RESERVATION_NONE || (life->parts >= 1 && life->parts <= WEIR_RESERVATION_PARTS_MAX));
    weir_assert(to != WEIR_RESERVATION_OPEN || life->charged == life->held);
    life->state = to;
}

void weir_reservation_begin(struct weir_reservation_life *life, uint64_t amount, uint64_t ttl_ns, bool keep,
                            uint64_t now_ns)
{
    weir_assert(amount <= WEIR_RESERVATION_AMOUNT_MAX && ttl_ns > 0);
    *life = (struct weir_reservation_life){ .state = WEIR_RESERVATION_NONE,
                                            .keep = keep,
                                            .parts = 1,
                                            .held = amount,
                                            .charged = amount,
                                            .ttl_ns = ttl_ns,
                                            .end_ns = weir_add_sat(now_ns, ttl_ns) };
    move(life, WEIR_RESERVATION_OPEN);
}

bool weir_reservation_is_over(const struct weir_reservation_life *life, uint64_t now_ns)
{
    return life->state == WEIR_RESERVATION_OPEN && now_ns >= life->end_ns;
}

int weir_reservation_extends(const struct weir_reservation_life *life, uint64_t more, uint64_t now_ns)
{
    if (life->state != WEIR_RESERVATION_OPEN || weir_reservation_is_over(life, now_ns))
        return WEIR_ELOST;
    if (more > WEIR_RESERVATION_AMOUNT_MAX - life->held)
        return WEIR_ERANGE;
    return life->parts == WEIR_RESERVATION_PARTS_MAX ? WEIR_ELIMIT : 0;
}

void weir_reservation_extend(struct weir_reservation_life *life, uint64_t more, uint64_t ttl_ns, uint64_t now_ns)
{
    weir_assert(weir_reservation_extends(life, more, now_ns) == 0);
    weir_assert(ttl_ns > 0);
    life->parts++;
    life->held += more;
    life->charged += more;
    life->ttl_ns = ttl_ns;
    life->end_ns = weir_add_sat(now_ns, ttl_ns);
    move(life, WEIR_RESERVATION_OPEN);
}

struct weir_reservation_due weir_reservation_expire(struct weir_reservation_life *life, uint64_t now_ns)
{
    struct weir_reservation_due due = { .back = life->keep ? 0 : life->held };
    weir_assert(weir_reservation_is_over(life, now_ns));
    life->charged -= due.back;
    weir_assert(life->charged == (life->keep ? life->held : 0));
    move(life, life->keep ? WEIR_RESERVATION_KEPT : WEIR_RESERVATION_RELEASED);
    return due;
}

struct weir_reservation_due weir_reservation_settle(struct weir_reservation_life *life, uint64_t actual,
                                                    uint64_t now_ns)
{
    struct weir_reservation_due due = { .late = life->state != WEIR_RESERVATION_OPEN };
    weir_assert(!weir_reservation_is_over(life, now_ns));
    weir_assert(life->state != WEIR_RESERVATION_NONE && actual <= WEIR_RESERVATION_AMOUNT_MAX);
    if (life->state == WEIR_RESERVATION_SETTLED)
        return (struct weir_reservation_due){ .again = true };
    const uint64_t charged = life->charged;
    due.more = weir_sub_sat(actual, charged);
    if (life->state == WEIR_RESERVATION_OPEN)
        due.back = weir_sub_sat(charged, actual);
    life->charged = charged + due.more - due.back;
    weir_assert(due.more == 0 || due.back == 0);
    weir_assert(due.late || life->charged == actual);
    weir_assert(life->charged >= actual); /* never less than was taken */
    move(life, WEIR_RESERVATION_SETTLED);
    return due;
}

void weir_reservation_forget(struct weir_reservation_life *life)
{
    move(life, WEIR_RESERVATION_NONE);
    *life = (struct weir_reservation_life){ .state = WEIR_RESERVATION_NONE };
}

/* ---- many together ---- */

/* Modulo 2^64, as counters are that only grow. */
static void check(const struct weir_reservation_book *book)
{
    weir_assert(book->reserved + book->more == book->outstanding + book->settled + book->back);
    weir_assert(book->open > 0 || book->outstanding == 0);
}

void weir_reservation_book_add(struct weir_reservation_book *book, uint64_t amount, bool begins)
{
    book->reserved += amount;
    book->outstanding += amount;
    book->open += begins;
    check(book);
}

void weir_reservation_book_end(struct weir_reservation_book *book, uint64_t held_before, bool ends,
                               const struct weir_reservation_due *due)
{
    weir_assert(book->outstanding >= held_before && due->back <= held_before);
    weir_assert(!ends || book->open > 0);
    book->outstanding -= held_before;
    book->open -= ends;
    book->more += due->more;
    book->back += due->back;
    book->settled += held_before - due->back + due->more;
    check(book);
}
