/* SPDX-License-Identifier: Apache-2.0
 *
 * The POSIX TZ rule in a TZif footer, such as "CET-1CEST,M3.5.0,M10.5.0/3": parsed, and turned into instants per year.
 *
 * What it does not: rules without dates ("EST5EDT"), which POSIX leaves to the implementation: refused.
 * Thread rule: plain values. Source: POSIX.1-2017 section 8.3, with the hours -167 to 167 of RFC 9636 section 3.3.1. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weir_zone_rule_kind {
    WEIR_ZONE_JULIAN,     /* Jn: day 1 to 365, 29 February never counted */
    WEIR_ZONE_DAY,        /* n: day 0 to 365, 29 February counted */
    WEIR_ZONE_MONTH_WEEK, /* Mm.w.d: weekday d (0 = Sunday) of week w (5 = the last) of month m */
};

/* When one of a year's two changes happens: the local time before the change. */
struct weir_zone_rule_date {
    enum weir_zone_rule_kind kind;
    int day;
    int month;
    int week;
    int32_t time_s; /* after midnight of that day; may be negative or past 24 h */
};

struct weir_zone_rule {
    bool has_dst;
    int32_t standard_s; /* offsets east of Greenwich */
    int32_t dst_s;
    struct weir_zone_rule_date to_dst;
    struct weir_zone_rule_date to_standard;
};

/* `text` need not end in NUL; all `size` bytes must belong to the rule. 0 or WEIR_EPROTO. */
int weir_zone_rule_parse(struct weir_zone_rule *rule, const char *text, size_t size);

struct weir_zone_change {
    int64_t at_s; /* UTC */
    int32_t offset_s;
};

/* The two changes of a year, earlier one first. Only for a rule with has_dst. */
void weir_zone_rule_year(const struct weir_zone_rule *rule, int64_t year, struct weir_zone_change ret_changes[2]);
