/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of all files, in the order of their times. Each file has a reader, which is one line ahead: the line with
 * the least time goes next, and the file it came from goes on until another one's line is sooner. Inside a file the
 * order is that of its lines, whatever their times. Bytes come from replay_bytes.c, lines are read by
 * wire/access_log.h. What is no line is counted here. Called by replay_run.c. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cli/replay.h"
#include "cli/replay_bytes.h"

#define AHEAD_NS (86400 * WEIR_NS_PER_SECOND)

struct reader {
    struct weir_replay_bytes bytes;
    const char *name;
    uint64_t number;
    bool ended; /* there is no line ahead */
    bool read;  /* a line of it: the format is the right one */
    bool odd;   /* a line that could not be read, and not for its path */
    bool told;  /* end_note was called */
    const char *guess;
    uint64_t last_ns; /* the time of the line that was given last */
    /* A line that is ahead of its time, and the one after it, which is given next: see ahead_is_believed. */
    char *room;
    bool has_kept;
    size_t kept_size;
    uint64_t kept_number;
    struct weir_access_format format;
    struct weir_access_line line;
};

struct weir_replay_source {
    const struct weir_replay_plan *plan;
    struct weir_access_options options;
    struct reader *readers[WEIR_REPLAY_FILES_MAX];
    size_t count;
    size_t current; /* whose line was given last; count = none yet */
    size_t others;  /* whose line is the least of the others; count = nobody's */
    bool failed, again;
    const char *format;
    struct weir_replay_bad bad;
};

static void bad_note(struct weir_replay_source *source, struct reader *reader, const char *why)
{
    struct weir_replay_bad *bad = &source->bad;
    if (source->again)
        return; /* they were counted in the first reading */
    bad->count++;
    bad->paths_refused += reader->line.path_refused;
    reader->odd = reader->odd || !reader->line.path_refused;
    if (bad->shown_count == WEIR_REPLAY_BAD_SHOWN)
        return;
    bad->shown[bad->shown_count].file = reader->name;
    bad->shown[bad->shown_count].number = reader->number;
    bad->shown[bad->shown_count++].why = why;
}

/* The file has no more lines: whether these were all of them. */
static void end_note(struct weir_replay_source *source, struct reader *reader)
{
    struct weir_replay_bad *bad = &source->bad;
    const struct weir_replay_bytes *bytes = &reader->bytes;
    const char *why = bytes->broken;
    if (source->again || reader->told)
        return;
    reader->told = true;
    if (!why && reader->odd && !reader->read)
        why = "no line of it could be read";
    if (why)
        bad->broken[bad->broken_count++] = (struct weir_replay_broken){ reader->name, why, reader->number,
                                                                        bytes->broken ? bytes->broken_at : bytes->read,
                                                                        bytes->size };
}

/* ---- the format ---- */

static const char *format_name(const char *text)
{
    static const char *const names[] = { "combined", "common", "envoy", "json" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(text, names[i]) == 0)
            return names[i];
    return "by --format";
}

static void format_name_note(struct weir_replay_source *source, const char *text)
{
    const char *name = format_name(text);
    source->format = !source->format || strcmp(source->format, name) == 0 ? name : "several formats";
}

/* By the first line; and as long as none could be read, by the next one: the first may be the end of another. */
static bool format_begin(struct weir_replay_source *source, struct reader *reader, const char *line, size_t size)
{
    struct weir_fault fault = { "", "" };
    const char *text = source->plan->format ? source->plan->format : weir_access_format_guess(line, size);
    if (text == reader->guess)
        return true;
    reader->guess = text;
    if (weir_access_format_init(&reader->format, text, &source->options, &fault) != 0) {
        fprintf(stderr, "weir: --%s %s\n", fault.field, fault.text);
        source->failed = true;
        return false;
    }
    return true;
}

/* ---- lines ---- */

/* The next line as it stands, the one that was kept first. */
static enum weir_replay_got raw_next(struct reader *reader, struct weir_slice *ret_raw)
{
    const char *line = NULL;
    size_t size = 0;
    if (reader->has_kept) {
        reader->has_kept = false;
        reader->number = reader->kept_number;
        *ret_raw = (struct weir_slice){ reader->room + WEIR_ACCESS_LINE_MAX, reader->kept_size };
        return WEIR_REPLAY_LINE;
    }
    enum weir_replay_got got = weir_replay_bytes_line(&reader->bytes, WEIR_ACCESS_LINE_MAX, &line, &size);
    reader->number += got == WEIR_REPLAY_LINE || got == WEIR_REPLAY_LONG;
    *ret_raw = (struct weir_slice){ line, size };
    return got;
}

/* The next line that can be read; false: there is none. */
static bool line_next(struct weir_replay_source *source, struct reader *reader, struct weir_slice *ret_raw)
{
    for (;;) {
        enum weir_replay_got got = raw_next(reader, ret_raw);
        source->failed = source->failed || got == WEIR_REPLAY_FAILED;
        if (got == WEIR_REPLAY_END)
            end_note(source, reader);
        if (got == WEIR_REPLAY_FAILED || got == WEIR_REPLAY_END)
            return false;
        reader->line.path_refused = false;
        if (got == WEIR_REPLAY_LONG) {
            source->bad.too_long += !source->again;
            bad_note(source, reader, "it is longer than 64 KiB");
            continue;
        }
        if (ret_raw->size == 0)
            continue;
        if (!reader->read && !format_begin(source, reader, ret_raw->data, ret_raw->size))
            return false;
        const char *why = weir_access_read(&reader->format, ret_raw->data, ret_raw->size, &reader->line);
        if (!why)
            return true;
        bad_note(source, reader, why);
    }
}

/* One line whose time is wrong, and far ahead, would hold all that follow it at its time. False: it is one. Else the
 * line after it is kept, and it is read once more. */
static bool ahead_is_believed(struct weir_replay_source *source, struct reader *reader, struct weir_slice raw)
{
    const uint64_t time_ns = reader->line.time_ns, number = reader->number;
    reader->room = reader->room ? reader->room : malloc(2 * WEIR_ACCESS_LINE_MAX);
    if (!reader->room)
        return true;
    char *own = reader->room, *kept = reader->room + WEIR_ACCESS_LINE_MAX;
    memcpy(own, raw.data, raw.size);
    size_t size = raw.size;
    bool believed = true;
    if (line_next(source, reader, &raw)) {
        memmove(kept, raw.data, raw.size);
        reader->kept_size = raw.size;
        reader->kept_number = reader->number;
        reader->has_kept = true;
        believed = reader->line.time_ns + AHEAD_NS >= time_ns;
    }
    reader->number = number;
    const char *why = weir_access_read(&reader->format, own, size, &reader->line);
    weir_assert(!why); /* it was read before */
    return believed;
}

static void reader_step(struct weir_replay_source *source, struct reader *reader)
{
    struct weir_slice raw;
    while (line_next(source, reader, &raw)) {
        bool ahead = !reader->read || reader->line.time_ns > reader->last_ns + AHEAD_NS;
        if (!reader->read)
            format_name_note(source, reader->guess);
        reader->read = true;
        if (!ahead || ahead_is_believed(source, reader, raw)) {
            reader->last_ns = reader->line.time_ns;
            return;
        }
        bad_note(source, reader, "its time is more than a day ahead of the lines around it");
    }
    reader->ended = true;
}

/* ---- all files ---- */

static bool reader_open(struct weir_replay_source *source, const char *name, bool spool)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    if (!reader) {
        fputs("weir: out of memory\n", stderr);
        return false;
    }
    source->readers[source->count++] = reader;
    reader->name = strcmp(name, "-") == 0 ? "standard input" : name;
    return weir_replay_bytes_open(&reader->bytes, name, spool);
}

struct weir_replay_source *weir_replay_source_open(const struct weir_replay_plan *plan,
                                                   const struct weir_access_options *options, bool spool)
{
    struct weir_replay_source *source = calloc(1, sizeof(*source));
    if (!source) {
        fputs("weir: out of memory\n", stderr);
        return NULL;
    }
    source->plan = plan;
    source->options = *options;
    bool good = true;
    for (size_t i = 0; i < plan->files_count && good; i++)
        good = reader_open(source, plan->files[i], spool);
    for (size_t i = 0; i < source->count && good && !source->failed; i++)
        reader_step(source, source->readers[i]);
    source->current = source->count;
    if (good && !source->failed)
        return source;
    weir_replay_source_close(source);
    return NULL;
}

bool weir_replay_source_rewind(struct weir_replay_source *source)
{
    source->again = true;
    source->current = source->count;
    for (size_t i = 0; i < source->count && !source->failed; i++) {
        struct reader *reader = source->readers[i];
        reader->number = 0;
        reader->ended = reader->has_kept = false;
        reader->last_ns = 0;
        if (!weir_replay_bytes_rewind(&reader->bytes))
            return false;
        reader_step(source, reader);
    }
    return !source->failed;
}

static bool before(const struct weir_replay_source *source, size_t a, size_t b)
{
    uint64_t left = source->readers[a]->line.time_ns, right = source->readers[b]->line.time_ns;
    return left < right || (left == right && a < b);
}

/* Whose line is the next, and who is next after that. */
static void choose(struct weir_replay_source *source)
{
    size_t first = source->count, second = source->count;
    for (size_t i = 0; i < source->count; i++) {
        if (source->readers[i]->ended)
            continue;
        if (first == source->count || before(source, i, first)) {
            second = first;
            first = i;
        } else if (second == source->count || before(source, i, second)) {
            second = i;
        }
    }
    source->current = first;
    source->others = second;
}

bool weir_replay_source_next(struct weir_replay_source *source, struct weir_replay_read *ret_read)
{
    if (source->current < source->count)
        reader_step(source, source->readers[source->current]);
    bool goes_on = source->current < source->count && !source->readers[source->current]->ended &&
                   (source->others == source->count || before(source, source->current, source->others));
    if (!goes_on)
        choose(source);
    if (source->failed || source->current == source->count)
        return false;
    const struct reader *reader = source->readers[source->current];
    *ret_read = (struct weir_replay_read){ reader->name, reader->number, &reader->line };
    return true;
}

bool weir_replay_source_failed(const struct weir_replay_source *source)
{
    return source->failed;
}

const struct weir_replay_bad *weir_replay_source_bad(const struct weir_replay_source *source)
{
    return &source->bad;
}

void weir_replay_source_progress(const struct weir_replay_source *source, uint64_t *ret_read, uint64_t *ret_size)
{
    *ret_read = *ret_size = 0;
    for (size_t i = 0; i < source->count; i++) {
        *ret_read += source->readers[i]->bytes.read;
        *ret_size += source->readers[i]->bytes.size;
    }
}

/* Of files without a single line nothing is known, and nothing matters. */
bool weir_replay_source_durations(const struct weir_replay_source *source)
{
    bool all = true;
    for (size_t i = 0; i < source->count; i++)
        all = all && (source->readers[i]->format.wanted_count == 0 || source->readers[i]->format.has_duration);
    return all;
}

const char *weir_replay_source_format(const struct weir_replay_source *source)
{
    return source->format ? source->format : "none";
}

void weir_replay_source_close(struct weir_replay_source *source)
{
    if (!source)
        return;
    for (size_t i = 0; i < source->count; i++) {
        weir_replay_bytes_close(&source->readers[i]->bytes);
        free(source->readers[i]->room);
        free(source->readers[i]);
    }
    free(source);
}
