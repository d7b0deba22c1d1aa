/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads /proc/self/stat, /proc/stat and /proc/self/fd, and asks getrusage and getrlimit, each time anew. Called by
 * serve/http_metrics.c for GET /metrics. */
#include "observe/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct weir_label no_label = { 0 };

static void gauge(struct weir_prometheus *out, const char *name, const char *help, uint64_t value)
{
    weir_prometheus_metric(out, name, "gauge", help);
    weir_prometheus_sample(out, name, no_label, no_label, value);
}

static void seconds(struct weir_prometheus *out, const char *name, const char *type, const char *help, uint64_t ns)
{
    weir_prometheus_metric(out, name, type, help);
    weir_prometheus_seconds(out, name, no_label, ns);
}

#define NUMBERS_MAX 24

/* The numbers after `text`, up to `count`; a sign is skipped. */
static size_t read_numbers(const char *text, uint64_t *ret_numbers, size_t count)
{
    size_t read = 0;
    while (read < count) {
        char *end;
        text += strspn(text, " -");
        ret_numbers[read] = strtoull(text, &end, 10);
        if (end == text)
            break;
        text = end;
        read++;
    }
    return read;
}

/* What the first line of `path` that begins with `head` has behind it; "" where there is none. */
static void read_line(const char *path, const char *head, char *ret_text, size_t size)
{
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && fgets(ret_text, (int)size, file))
        found = strncmp(ret_text, head, strlen(head)) == 0;
    if (file)
        (void)fclose(file);
    if (found)
        memmove(ret_text, ret_text + strlen(head), strlen(ret_text) - strlen(head) + 1);
    else
        ret_text[0] = '\0';
}

/* Ticks of the clock after the machine's start, when this process began; bytes; pages. False: /proc is not there. */
static bool read_stat(uint64_t *ret_begun, uint64_t *ret_virtual, uint64_t *ret_resident)
{
    char line[1024];
    uint64_t numbers[NUMBERS_MAX];
    read_line("/proc/self/stat", "", line, sizeof(line));
    /* The name, in brackets, may hold anything; behind it come a letter and the numbers, from field 4 of proc(5) on. */
    const char *after = strrchr(line, ')');
    if (!after || strlen(after) < 4 || read_numbers(after + 3, numbers, NUMBERS_MAX) < 21)
        return false;
    *ret_begun = numbers[22 - 4];
    *ret_virtual = numbers[23 - 4];
    *ret_resident = numbers[24 - 4];
    return true;
}

/* 0: /proc is not there. */
static uint64_t boot_seconds(void)
{
    char line[256];
    uint64_t seconds = 0;
    read_line("/proc/stat", "btime ", line, sizeof(line));
    (void)read_numbers(line, &seconds, 1);
    return seconds;
}

static uint64_t open_descriptors(void)
{
    uint64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        (void)closedir(folder);
    return count > 0 ? count - 1 : 0; /* but for the folder's own */
}

static uint64_t nanoseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)time.tv_usec * 1000;
}

void weir_process_metrics(struct weir_prometheus *out)
{
    struct rusage usage;
    struct rlimit limit;
    uint64_t begun = 0, virtual_bytes = 0, resident_pages = 0;
    uint64_t boot = boot_seconds();
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK), page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        seconds(out, "process_cpu_seconds_total", "counter", "Processor time, of users and of the system.",
                nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime));
    if (read_stat(&begun, &virtual_bytes, &resident_pages)) {
        gauge(out, "process_resident_memory_bytes", "Memory in use.", resident_pages * page);
        gauge(out, "process_virtual_memory_bytes", "Addresses in use.", virtual_bytes);
        if (boot > 0)
            seconds(out, "process_start_time_seconds", "gauge", "When this process began, since 1970.",
                    boot * WEIR_NS_PER_SECOND + begun * (WEIR_NS_PER_SECOND / ticks));
    }
    gauge(out, "process_open_fds", "Descriptors in use.", open_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        gauge(out, "process_max_fds", "Descriptors that there may be.", limit.rlim_cur);
}
