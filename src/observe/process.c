/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
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

/* Ticks of the clock after the machine's start, when this process began; bytes; pages. False: /proc is not there. */
static bool read_stat(uint64_t *ret_begun, uint64_t *ret_virtual, uint64_t *ret_resident)
{
    char line[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    size_t size = file ? fread(line, 1, sizeof(line) - 1, file) : 0;
    if (file)
        (void)fclose(file);
    line[size] = '\0';
    /* The name, in brackets, may hold anything; after it come the state and 19 numbers before ours. */
    const char *after = strrchr(line, ')');
    return after && sscanf(after + 1,
                           " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64
                           " %" SCNu64 " %" SCNu64,
                           ret_begun, ret_virtual, ret_resident) == 3;
}

/* 0: /proc is not there. */
static uint64_t boot_seconds(void)
{
    char line[256];
    uint64_t value = 0;
    FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "btime %" SCNu64, &value) == 1)
            break;
    if (file)
        (void)fclose(file);
    return value;
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
