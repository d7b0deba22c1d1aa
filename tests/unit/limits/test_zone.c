/* SPDX-License-Identifier: Apache-2.0
 *
 * Time zones against libc's localtime_r, and malformed files against the sanitizers. */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "limits/zone.h"
#include "random.h"
#include "weir/limit.h"

static const char *const zones[] = {
    "UTC",
    "Europe/Berlin",
    "Europe/Dublin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Asia/Tokyo",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "America/Scoresbysund",
    "Africa/Monrovia",
};
#define ZONES (sizeof(zones) / sizeof(zones[0]))

static int32_t libc_offset_s(int64_t utc_s)
{
    time_t t = (time_t)utc_s;
    struct tm tm;
    assert_non_null(localtime_r(&t, &tm));
    return (int32_t)tm.tm_gmtoff;
}

static struct weir_zone *open_zone(const char *name)
{
    struct weir_zone *zone = NULL;
    assert_int_equal(weir_zone_create(name, &zone), 0);
    return zone;
}

/* From 1970 to 2550: most of it comes from footers. */
static void zone__offsets_agree_with_libc_from_1970_to_2550(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (size_t i = 0; i < ZONES; i++) {
        assert_int_equal(setenv("TZ", zones[i], 1), 0);
        tzset();
        struct weir_zone *zone = open_zone(zones[i]);
        for (int round = 0; round < 20000; round++) {
            int64_t limit = round % 2 ? INT64_C(18302630400) : INT64_C(4102444800);
            int64_t at = (int64_t)test_random_below(&random, (uint64_t)limit);
            if (weir_zone_offset_s(zone, at) != libc_offset_s(at)) {
                fail_msg("%s at %lld: %d should be %d", zones[i], (long long)at, weir_zone_offset_s(zone, at),
                         libc_offset_s(at));
            }
        }
        weir_zone_destroy(zone);
    }
}

/* Each offset change between 1970 and 2100, to the second. */
static void zone__changes_happen_at_libcs_second(void **state)
{
    (void)state;
    for (size_t i = 0; i < ZONES; i++) {
        assert_int_equal(setenv("TZ", zones[i], 1), 0);
        tzset();
        struct weir_zone *zone = open_zone(zones[i]);
        for (int64_t hour = 0; hour < INT64_C(4102444800); hour += 3600) {
            if (weir_zone_offset_s(zone, hour) == weir_zone_offset_s(zone, hour + 3600)) {
                continue;
            }
            for (int64_t at = hour; at <= hour + 3600; at++) {
                assert_int_equal(weir_zone_offset_s(zone, at), libc_offset_s(at));
            }
        }
        weir_zone_destroy(zone);
    }
}

static void zone__a_time_in_a_gap_is_the_first_instant_after_it(void **state)
{
    (void)state;
    struct weir_zone *berlin = open_zone("Europe/Berlin");
    int64_t change = 1774746000; /* 2026-03-29 01:00 UTC: 02:00 becomes 03:00 */
    int64_t two_oclock = change + 3600;
    assert_int_equal(weir_zone_first_s(berlin, two_oclock - 1), change - 1);
    assert_int_equal(weir_zone_first_s(berlin, two_oclock), change);
    assert_int_equal(weir_zone_first_s(berlin, two_oclock + 1800), change);
    assert_int_equal(weir_zone_first_s(berlin, two_oclock + 3600), change);
    assert_int_equal(weir_zone_first_s(berlin, two_oclock + 3601), change + 1);
    weir_zone_destroy(berlin);
}

static void zone__a_time_in_an_overlap_is_its_first_occurrence(void **state)
{
    (void)state;
    struct weir_zone *berlin = open_zone("Europe/Berlin");
    int64_t change = 1792890000; /* 2026-10-25 01:00 UTC: 03:00 becomes 02:00 */
    int64_t three_oclock = change + 7200;
    assert_int_equal(weir_zone_first_s(berlin, three_oclock - 1), change - 1);
    assert_int_equal(weir_zone_first_s(berlin, three_oclock - 3600), change - 3600);
    assert_int_equal(weir_zone_first_s(berlin, three_oclock), change + 3600);
    weir_zone_destroy(berlin);
}

static void zone__utc_needs_no_file(void **state)
{
    (void)state;
    const char *const names[] = { NULL, "UTC" };
    for (size_t i = 0; i < 2; i++) {
        struct weir_zone *utc = open_zone(names[i]);
        assert_int_equal(weir_zone_offset_s(utc, 1792890000), 0);
        assert_int_equal(weir_zone_first_s(utc, 1792890000), 1792890000);
        weir_zone_destroy(utc);
    }
    assert_int_equal(weir_zone_offset_s(NULL, 5), 0);
    assert_int_equal(weir_zone_first_s(NULL, 5), 5);
}

static void zone__names_that_leave_the_folder_are_refused(void **state)
{
    (void)state;
    const char *const names[] = {
        "",
        "/etc/passwd",
        "../passwd",
        "Europe/../UTC",
        "Europe//Berlin",
        "Europe/",
        "/",
        ".",
        "Europe",
        "No/Such",
        "tzdata.zi",
        "Europe/Berlin ",
        "Eur\xc3\xb6pe",
        "Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct weir_zone *zone = NULL;
        assert_int_equal(weir_zone_create(names[i], &zone), WEIR_EINVAL);
        assert_null(zone);
    }
    weir_zone_destroy(NULL);
}

/* A TZif file under construction: empty version 1 block, then a version 2 block and the footer. */
struct file {
    uint8_t bytes[512];
    size_t size;
};

static void put(struct file *file, const void *bytes, size_t size)
{
    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
}

static void put_header(struct file *file, char version, uint8_t leap, uint8_t times, uint8_t types)
{
    uint8_t header[44] = { 'T', 'Z', 'i', 'f', (uint8_t)version };
    header[31] = leap;
    header[35] = times;
    header[39] = types;
    header[43] = 4;
    put(file, header, sizeof(header));
}

static const uint8_t one_type[6] = { 0, 0, 14, 16, 0, 0 }; /* +01:00 */

static struct file make_file(char version, uint8_t leap, const char *footer)
{
    struct file file = { .size = 0 };
    put_header(&file, version, 0, 0, 1);
    put(&file, one_type, 6);
    put(&file, "CET", 4);
    put_header(&file, version, leap, 0, 1);
    put(&file, one_type, 6);
    put(&file, "CET", 4);
    put(&file, footer, strlen(footer));
    return file;
}

static int read_file(const struct file *file, struct weir_zone **ret_zone)
{
    return weir_zone_create_from(file->bytes, file->size, ret_zone);
}

int __real_fstat64(int fd, struct stat64 *ret_status);
int __wrap_fstat64(int fd, struct stat64 *ret_status);
ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);

static bool fstat_fails, read_fails;

int __wrap_fstat64(int fd, struct stat64 *ret_status)
{
    errno = EIO;
    return fstat_fails ? -1 : __real_fstat64(fd, ret_status);
}

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    errno = EIO;
    return read_fails ? -1 : __real_read(fd, bytes, size);
}

/* That there is no such zone is another matter. */
static void zone__a_file_that_cannot_be_read_is_told_apart(void **state)
{
    (void)state;
    for (int fails = 0; fails < 4; fails++) {
        struct weir_zone *zone = NULL;
        struct rlimit was, none = { 0, 0 };
        fstat_fails = fails == 1;
        read_fails = fails == 2;
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
        none.rlim_max = was.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, fails == 3 ? &none : &was), 0); /* none can be opened */
        const int error = weir_zone_create("Europe/Berlin", &zone);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
        fstat_fails = read_fails = false;
        assert_int_equal(error, fails ? WEIR_EIO : 0);
        assert_true(fails ? zone == NULL : zone != NULL);
        weir_zone_destroy(zone);
    }
}

/* What stands in a version 2 block of up to two changes. */
struct block {
    uint8_t isut, isstd, times, types, chars; /* how many the header says; of those that are 0 nothing is there */
    int64_t at_s[2];
    uint8_t index[2];
    uint8_t type[6]; /* big endian offset, whether it is daylight saving, where its name begins */
};
#define HOUR_EAST                                                                                                      \
    {                                                                                                                  \
        0, 0, 14, 16, 0, 0                                                                                             \
    }

static struct file make_block(const struct block *block)
{
    static const uint8_t zeros[8] = { 0 };
    struct file file = make_file('2', 0, "");
    file.size -= 44 + 6 + 4;
    put_header(&file, '2', 0, block->times, block->types);
    uint8_t *header = file.bytes + file.size - 44;
    header[23] = block->isut;
    header[27] = block->isstd;
    header[43] = block->chars;
    for (unsigned i = 0; i < block->times; i++) {
        const uint64_t big = htobe64((uint64_t)block->at_s[i]);
        put(&file, &big, 8);
    }
    put(&file, block->index, block->times);
    for (unsigned i = 0; i < block->types; i++)
        put(&file, block->type, 6);
    put(&file, "CET", block->chars);
    put(&file, zeros, block->isut);
    put(&file, zeros, block->isstd);
    put(&file, "\nCET-1\n", 7);
    return file;
}

static void zone__a_block_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    static const int64_t far = INT64_C(1) << 60;
    const struct {
        bool good;
        struct block block;
    } cases[] = {
        { true, { 0, 0, 2, 2, 4, { 5, 6 }, { 0, 1 }, HOUR_EAST } },
        { true, { 2, 2, 2, 2, 4, { 5, 6 }, { 0, 1 }, HOUR_EAST } },
        { true, { 0, 0, 2, 2, 4, { 1 - far, far - 1 }, { 0, 1 }, HOUR_EAST } },
        { true, { 0, 0, 0, 1, 4, { 0, 0 }, { 0, 0 }, { 0xff, 0xfe, 0x92, 0x61, 1, 3 } } }, /* -25:59:59 */
        { true, { 0, 0, 0, 1, 4, { 0, 0 }, { 0, 0 }, { 0, 1, 0x6d, 0x9f, 1, 3 } } },
        { false, { 0, 0, 2, 2, 4, { 6, 6 }, { 0, 1 }, HOUR_EAST } },
        { false, { 0, 0, 2, 2, 4, { 6, 5 }, { 0, 1 }, HOUR_EAST } },
        { false, { 0, 0, 2, 2, 4, { -far, 5 }, { 0, 1 }, HOUR_EAST } },
        { false, { 0, 0, 2, 2, 4, { 5, far }, { 0, 1 }, HOUR_EAST } },
        { false, { 0, 0, 2, 2, 4, { 5, 6 }, { 0, 2 }, HOUR_EAST } },
        { false, { 1, 0, 2, 2, 4, { 5, 6 }, { 0, 1 }, HOUR_EAST } },
        { false, { 0, 1, 2, 2, 4, { 5, 6 }, { 0, 1 }, HOUR_EAST } },
        { false, { 0, 0, 0, 0, 4, { 0, 0 }, { 0, 0 }, HOUR_EAST } },
        { false, { 0, 0, 0, 1, 0, { 0, 0 }, { 0, 0 }, HOUR_EAST } },
        { false, { 0, 0, 0, 1, 4, { 0, 0 }, { 0, 0 }, { 0, 0, 14, 16, 2, 0 } } },
        { false, { 0, 0, 0, 1, 4, { 0, 0 }, { 0, 0 }, { 0, 0, 14, 16, 0, 4 } } },
        { false, { 0, 0, 0, 1, 4, { 0, 0 }, { 0, 0 }, { 0xff, 0xfe, 0x92, 0x60, 0, 0 } } }, /* -26:00 */
        { false, { 0, 0, 0, 1, 4, { 0, 0 }, { 0, 0 }, { 0, 1, 0x6d, 0xa0, 0, 0 } } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_zone *zone = NULL;
        const struct file file = make_block(&cases[i].block);
        const int error = read_file(&file, &zone);
        if (error != (cases[i].good ? 0 : WEIR_EPROTO))
            fail_msg("block %zu: %d", i, error);
        weir_zone_destroy(zone);
    }
}

/* Rules as libc reads them from TZ. */
static void zone__rules_agree_with_libc(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "CET-1CEST,M3.5.0,M10.5.0/3", /* the last Sunday */
        "AEST-10AEDT,M10.1.0,M4.1.0/3",
        "IST-2IDT,M3.4.4/26,M10.5.0",
        "NZST-12NZDT,M9.5.0,M4.1.0/3",
        "AAA3BBB2:30:15,J59/1:30,J60/23:59:59", /* around the end of February */
        "AAA3BBB,58/0,59/1:00:01",
        "AAA+3BBB+1,M12.5.6/3,M2.4.3/0",
        "<+1245>-12:45<+1345>,M9.5.0/2:45,M4.1.0/3:45",
        "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1",
        "XYZ-13:59:59",
        "XYZ12:34:56",
        "abc0",
    };
    struct test_random random = { test_random_seed() };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct weir_zone *zone = NULL;
        char footer[64];
        (void)snprintf(footer, sizeof footer, "\n%s\n", rules[i]);
        const struct file file = make_file('3', 0, footer);
        assert_int_equal(setenv("TZ", rules[i], 1), 0);
        tzset();
        assert_int_equal(read_file(&file, &zone), 0);
        for (int64_t at = 0; at < INT64_C(40) * 366 * 86400;
             at += 7 * 86400) { /* each week, then each second of some */
            const int64_t second = at + (int64_t)test_random_below(&random, 7 * 86400);
            if (weir_zone_offset_s(zone, second) != libc_offset_s(second))
                fail_msg("%s at %lld", rules[i], (long long)second);
        }
        for (int64_t at = 1700000000; at < 1700000000 + 2 * 366 * 86400; at += 3600) {
            if (weir_zone_offset_s(zone, at) == weir_zone_offset_s(zone, at + 3600) &&
                libc_offset_s(at) == libc_offset_s(at + 3600))
                continue;
            for (int64_t second = at; second <= at + 3600; second++)
                if (weir_zone_offset_s(zone, second) != libc_offset_s(second))
                    fail_msg("%s at %lld", rules[i], (long long)second);
        }
        weir_zone_destroy(zone);
    }
}

static void zone__a_footer_alone_gives_the_rule_for_all_times(void **state)
{
    (void)state;
    struct weir_zone *zone = NULL;
    struct file file = make_file('2', 0, "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    assert_int_equal(read_file(&file, &zone), 0);
    assert_int_equal(weir_zone_offset_s(zone, 1774746000 - 1), 3600);
    assert_int_equal(weir_zone_offset_s(zone, 1774746000), 7200);
    assert_int_equal(weir_zone_offset_s(zone, 1792890000), 3600);
    weir_zone_destroy(zone);
}

static void zone__perpetual_daylight_saving_has_no_seam_at_new_year(void **state)
{
    (void)state;
    struct weir_zone *zone = NULL;
    struct file file = make_file('3', 0, "\nEST5EDT,0/0,J365/25\n"); /* RFC 9636 section 3.3.1 */
    assert_int_equal(read_file(&file, &zone), 0);
    for (int64_t at = 1767225600 - 86400; at < 1767225600 + 86400; at += 60) {
        assert_int_equal(weir_zone_offset_s(zone, at), -4 * 3600);
    }
    weir_zone_destroy(zone);
}

static void zone__how_far_walls_are_put_back(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t hours;
    } cases[] = { { "UTC", 0 }, { "Asia/Kathmandu", 0 }, { "Europe/Berlin", 1 }, { "Antarctica/Troll", 2 } };
    assert_int_equal(weir_zone_back_ns(NULL), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct weir_zone *zone = NULL;
        assert_int_equal(weir_zone_create(cases[i].name, &zone), 0);
        assert_int_equal(weir_zone_back_ns(zone), cases[i].hours * 3600 * WEIR_NS_PER_SECOND);
        weir_zone_destroy(zone);
    }
}

static void zone__malformed_files_are_errors(void **state)
{
    (void)state;
    const char *const footers[] = {
        "",
        "\n",
        "CET-1\n",
        "\nCET-1",
        "\nCET\n",
        "\nCE-1\n",
        "\nCET-1CEST\n",
        "\nCET-1CEST,M3.5.0\n",
        "\nCET-25\n",
        "\nCET-1CEST,M13.5.0,M10.5.0\n",
        "\nCET-1CEST,M3.6.0,M10.5.0\n",
        "\nCET-1CEST,J0,J3\n",
        "\nCET-1CEST,366,3\n",
        "\nCET-1CEST,M3.5.0/168,M10.5.0\n",
        "\n<+01-1\n",
        "\nCET-1CEST,M3.5.0,M10.5.0x\n",
        "\nCET-1:60\n",
        "\nCET-1:\n",
        "\nCET-1:0:60\n",
        "\nCET-1:0:\n",
        "\nCET-1CEST-25,M3.5.0,M10.5.0\n",
        "\nCET-1CES,M3.5.0,M10.5.0/\n",
        "\nCET-1CE,M3.5.0,M10.5.0\n",
        "\nCET-1CEST,M0.5.0,M10.5.0\n",
        "\nCET-1CEST,M3.0.0,M10.5.0\n",
        "\nCET-1CEST,M3.5.7,M10.5.0\n",
        "\nCET-1CEST,M3,M10.5.0\n",
        "\nCET-1CEST,M3.5,M10.5.0\n",
        "\nCET-1CEST,J366,J3\n",
        "\nCET-1CEST,3,366\n",
        "\nCET-1CEST,J,J3\n",
        "\nCET-1CEST M3.5.0,M10.5.0\n",
        "\nC3T-1\n",
        "\n<CET-1\n",
    };
    for (size_t i = 0; i < sizeof(footers) / sizeof(footers[0]); i++) {
        struct weir_zone *zone = NULL;
        struct file file = make_file('2', 0, footers[i]);
        assert_int_equal(read_file(&file, &zone), WEIR_EPROTO);
        assert_null(zone);
    }
    struct weir_zone *zone = NULL;
    struct file version_1 = make_file(0, 0, "\nCET-1\n");
    assert_int_equal(read_file(&version_1, &zone), WEIR_EPROTO);
    struct file leaps = make_file('2', 1, "\nCET-1\n");
    assert_int_equal(read_file(&leaps, &zone), WEIR_EPROTO);
}

/* Every cut, and every byte set to every value that matters, of a good file: an error or a zone, never a crash. */
static void zone__no_damage_to_a_file_crashes(void **state)
{
    (void)state;
    struct file good = make_file('2', 0, "\nCET-1CEST,M3.5.0,M10.5.0/3\n");
    for (size_t size = 0; size < good.size; size++) {
        struct weir_zone *zone = NULL;
        assert_int_equal(weir_zone_create_from(good.bytes, size, &zone), WEIR_EPROTO);
    }
    for (size_t i = 0; i < good.size; i++) {
        for (unsigned value = 0; value < 256; value += 5) {
            struct weir_zone *zone = NULL;
            struct file bad = good;
            bad.bytes[i] = (uint8_t)value;
            if (read_file(&bad, &zone) == 0) {
                int64_t first = weir_zone_first_s(zone, 1774749600);
                assert_true(first + weir_zone_offset_s(zone, first) >= 1774749600);
                weir_zone_destroy(zone);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zone__offsets_agree_with_libc_from_1970_to_2550),
        cmocka_unit_test(zone__changes_happen_at_libcs_second),
        cmocka_unit_test(zone__a_time_in_a_gap_is_the_first_instant_after_it),
        cmocka_unit_test(zone__a_time_in_an_overlap_is_its_first_occurrence),
        cmocka_unit_test(zone__utc_needs_no_file),
        cmocka_unit_test(zone__names_that_leave_the_folder_are_refused),
        cmocka_unit_test(zone__a_file_that_cannot_be_read_is_told_apart),
        cmocka_unit_test(zone__a_block_that_contradicts_itself_is_refused),
        cmocka_unit_test(zone__rules_agree_with_libc),
        cmocka_unit_test(zone__a_footer_alone_gives_the_rule_for_all_times),
        cmocka_unit_test(zone__perpetual_daylight_saving_has_no_seam_at_new_year),
        cmocka_unit_test(zone__how_far_walls_are_put_back),
        cmocka_unit_test(zone__malformed_files_are_errors),
        cmocka_unit_test(zone__no_damage_to_a_file_crashes),
    };
    return cmocka_run_group_tests_name("zone", tests, NULL, NULL);
}
