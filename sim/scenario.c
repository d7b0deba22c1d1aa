/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a scenario's file line by line: the first word names the function that reads the rest, and the first mistake
 * ends it. Running is scenario_run.c, printing scenario_print.c; plan_file.c writes such a file. Called by cli/sim.c
 * and tests/sim/test_scenarios.c. */
#include "sim/scenario.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/modes.h"
#include "sim/naive/naive.h"

#define DURATION_MAX_NS (UINT64_C(1) << 49)

struct reader {
    struct weir_scenario *scenario;
    const char *path;
    unsigned line;
    char *error;
    size_t error_size;
};

static int fail(const struct reader *reader, const char *what, const char *word)
{
    snprintf(reader->error, reader->error_size, "%s:%u: %s: %s", reader->path, reader->line, what, word);
    return WEIR_EPROTO;
}

/* ---- values ---- */

static int read_number(const struct reader *reader, const char *text, uint64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || text[0] == '-')
        return fail(reader, "no number", text);
    *ret_number = number;
    return 0;
}

/* "400ms", "90s", "2min", "0". */
static int read_duration(const struct reader *reader, const char *text, uint64_t *ret_ns)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = { { "ns", 1 },
                  { "us", 1000 },
                  { "ms", 1000000 },
                  { "s", WEIR_NS_PER_SECOND },
                  { "min", 60 * WEIR_NS_PER_SECOND },
                  { "h", 3600 * WEIR_NS_PER_SECOND } };
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || errno != 0 || text[0] == '-')
        return fail(reader, "no duration", text);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        bool zero = number == 0 && *end == '\0';
        if (zero || (strcmp(end, units[i].name) == 0 && number <= DURATION_MAX_NS / units[i].ns)) {
            *ret_ns = number * units[i].ns;
            return 0;
        }
    }
    return fail(reader, "a duration in ns, us, ms, s, min or h is missing, or is too long", text);
}

/* "all", "2", "0,3-5" */
static int read_nodes(const struct reader *reader, const char *text, uint64_t *ret_mask)
{
    uint64_t mask = 0;
    if (strcmp(text, "all") == 0 || strcmp(text, "none") == 0) {
        *ret_mask = text[0] == 'a' ? WEIR_SIM_ALL : 0;
        return 0;
    }
    for (const char *at = text; *at;) {
        char *end = NULL;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end != at && *end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
        }
        if (end == at || last >= WEIR_SIM_NODES_MAX || first > last || (*end != ',' && *end != '\0'))
            return fail(reader, "no nodes", text);
        for (; first <= last; first++)
            mask |= UINT64_C(1) << first;
        at = *end == ',' ? end + 1 : end;
    }
    *ret_mask = mask;
    return 0;
}

static int read_algorithm(const struct reader *reader, const char *text, enum weir_algorithm *ret_algorithm)
{
    for (int i = 0; weir_algorithm_name((enum weir_algorithm)i); i++) {
        if (strcmp(text, weir_algorithm_name((enum weir_algorithm)i)) == 0) {
            *ret_algorithm = (enum weir_algorithm)i;
            return 0;
        }
    }
    return fail(reader, "no algorithm", text);
}

/* "100/s", "1000/min", "5/250ms" */
static int read_rate(const struct reader *reader, const char *text, struct weir_limit_spec *spec)
{
    char count[32], period[32];
    size_t size = strcspn(text, "/");
    if (text[size] != '/' || size >= sizeof(count))
        return fail(reader, "no rate", text);
    snprintf(count, sizeof(count), "%.*s", (int)size, text);
    const char *rest = text + size + 1;
    snprintf(period, sizeof(period), "%s%s", rest[0] >= '0' && rest[0] <= '9' ? "" : "1", rest);
    int error = read_number(reader, count, &spec->count);
    return error == 0 ? read_duration(reader, period, &spec->period_ns) : error;
}

static int read_flag(const struct reader *reader, const char *text, bool *ret_flag)
{
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return fail(reader, "must be 0 or 1", text);
    *ret_flag = text[0] == '1';
    return 0;
}

static int read_between(const struct reader *reader, const char *text, uint64_t least, uint64_t most,
                        const char *otherwise, uint32_t *ret_number)
{
    uint64_t number;
    int error = read_number(reader, text, &number);
    if (error == 0 && (number < least || number > most))
        return fail(reader, otherwise, text);
    if (error == 0)
        *ret_number = (uint32_t)number;
    return error;
}

/* ---- words: name=value ---- */

/* What a name stands for: one of the pointers is set. */
struct word {
    const char *name;
    uint64_t *number, *ns, *nodes;
    uint32_t *ppm;
    bool *flag;
};

static int set_word(const struct reader *reader, const struct word *words, size_t count, const char *name,
                    const char *value, const char *otherwise)
{
    size_t i = 0;
    while (i < count && strcmp(words[i].name, name) != 0)
        i++;
    if (i == count)
        return fail(reader, otherwise, name);
    if (words[i].ns)
        return read_duration(reader, value, words[i].ns);
    if (words[i].number)
        return read_number(reader, value, words[i].number);
    if (words[i].nodes)
        return read_nodes(reader, value, words[i].nodes);
    if (words[i].ppm)
        return read_between(reader, value, 0, 1000000, "more than a million in a million", words[i].ppm);
    return read_flag(reader, value, words[i].flag);
}

static int set_plan(const struct reader *reader, struct weir_sim_plan *plan, const char *name, const char *value)
{
    const struct word words[] = {
        { "span", .ns = &plan->duration_ns },
        { "interval", .ns = &plan->interval_ns },
        { "chunk_ttl", .ns = &plan->chunk_ttl_ns },
        { "deadline", .ns = &plan->deadline_ns },
        { "skew", .ns = &plan->skew_ns },
        { "far", .nodes = &plan->far },
        { "far_by", .ns = &plan->far_ns },
        { "calm", .ns = &plan->calm_ns },
        { "latency_min", .ns = &plan->latency_min_ns },
        { "latency_max", .ns = &plan->latency_max_ns },
        { "burst", .number = &plan->limit.burst },
        { "changed_burst", .number = &plan->changed.burst },
        { "seed", .number = &plan->seed },
        { "slack", .number = &plan->slack },
        /* What seeds draw besides. */
        { "drift_ppm", .ppm = &plan->drift_ppm },
        { "loss_ppm", .ppm = &plan->loss_ppm },
        { "duplicate_ppm", .ppm = &plan->duplicate_ppm },
        { "reorder_ppm", .ppm = &plan->reorder_ppm },
        { "hold_ppm", .ppm = &plan->hold_ppm },
        { "tick_ppm", .ppm = &plan->tick_ppm },
        { "numbered", .flag = &plan->numbered },
        { "partial", .flag = &plan->partial },
        { "door", .flag = &plan->door },
        { "twins", .flag = &plan->twins },
        { "dozen", .flag = &plan->dozen },
    };
    if (strcmp(name, "latency") == 0) {
        int error = read_duration(reader, value, &plan->latency_min_ns);
        plan->latency_max_ns = plan->latency_min_ns;
        return error;
    }
    if (strcmp(name, "changed") == 0) {
        plan->changed.algorithm = plan->limit.algorithm;
        plan->changed.period_ns = plan->limit.period_ns;
        return read_number(reader, value, &plan->changed.count);
    }
    if (strcmp(name, "algorithm") == 0)
        return read_algorithm(reader, value, &plan->limit.algorithm);
    if (strcmp(name, "rate") == 0)
        return read_rate(reader, value, &plan->limit);
    if (strcmp(name, "nodes") == 0)
        return read_between(reader, value, 1, WEIR_SIM_NODES_MAX, "out of range", &plan->nodes);
    return set_word(reader, words, sizeof(words) / sizeof(words[0]), name, value, "no such setting");
}

static int set_load(const struct reader *reader, struct weir_sim_load *load, const char *name, const char *value)
{
    const struct word words[] = { { "from", .ns = &load->from_ns },        { "until", .ns = &load->until_ns },
                                  { "every", .ns = &load->every_ns },      { "nodes", .nodes = &load->nodes },
                                  { "rate", .number = &load->rate_per_s }, { "burst", .number = &load->burst },
                                  { "cost", .number = &load->cost_max } };
    return set_word(reader, words, sizeof(words) / sizeof(words[0]), name, value, "no such word of a load");
}

static int set_fault(const struct reader *reader, struct weir_sim_fault *broken, const char *name, const char *value)
{
    const struct word words[] = { { "from", .ns = &broken->from_ns },
                                  { "until", .ns = &broken->until_ns },
                                  { "nodes", .nodes = &broken->nodes },
                                  { "one_way", .flag = &broken->one_way } };
    if (strcmp(name, "step") == 0) {
        uint64_t step_ns = 0;
        bool back = value[0] == '-';
        int error = read_duration(reader, value + back, &step_ns);
        broken->step_ns = back ? -(int64_t)step_ns : (int64_t)step_ns;
        return error;
    }
    return set_word(reader, words, sizeof(words) / sizeof(words[0]), name, value, "no such word of a fault");
}

/* Takes the next name=value off a line, unless there was an error. False: there is none. */
static bool next_word(const struct reader *reader, char **next, char **ret_name, char **ret_value, int *error)
{
    char *name = *error == 0 ? strtok_r(NULL, " \t", next) : NULL;
    char *equals = name ? strchr(name, '=') : NULL;
    if (name && !equals)
        *error = fail(reader, "name=value is missing", name);
    if (!equals)
        return false;
    *equals = '\0';
    *ret_name = name;
    *ret_value = equals + 1;
    return true;
}

/* ---- lines ---- */

static int line_set(const struct reader *reader, char *rest)
{
    int error = 0;
    char *name, *value, *next = rest;
    while (next_word(reader, &next, &name, &value, &error))
        error = set_plan(reader, &reader->scenario->plan, name, value);
    if (error == 0 && reader->scenario->plan.duration_ns == 0)
        error = fail(reader, "must be above 0", "span");
    return error;
}

static struct weir_scenario_group *open_group(struct weir_scenario *scenario, const char *name, uint32_t keys)
{
    struct weir_scenario_group *group = &scenario->groups[scenario->groups_count++];
    *group = (struct weir_scenario_group){ .keys = keys };
    snprintf(group->name, sizeof(group->name), "%s", name);
    return group;
}

static int line_group(const struct reader *reader, char *rest)
{
    char *next = NULL;
    const char *name = strtok_r(rest, " \t", &next), *keys = strtok_r(NULL, " \t", &next);
    uint32_t count = 0;
    if (name == NULL || keys == NULL || reader->scenario->groups_count == WEIR_SCENARIO_GROUPS_MAX)
        return fail(reader, "a group has a name and a number of keys, and there are at most 4", rest);
    int error = read_between(reader, keys, 1, 10000, "out of range", &count);
    if (error == 0)
        open_group(reader->scenario, name, count);
    return error;
}

static int line_load(const struct reader *reader, char *rest)
{
    struct weir_scenario *scenario = reader->scenario;
    struct weir_scenario_group *group = scenario->groups_count > 0 ? &scenario->groups[scenario->groups_count - 1]
                                                                   : open_group(scenario, "", 1);
    if (group->loads_count == WEIR_SIM_LOADS_MAX)
        return fail(reader, "too many loads", rest);
    struct weir_sim_load *load = &group->loads[group->loads_count++];
    *load = (struct weir_sim_load){ .nodes = WEIR_SIM_ALL, .until_ns = scenario->plan.duration_ns };
    int error = 0;
    char *name, *value, *next = rest;
    while (next_word(reader, &next, &name, &value, &error))
        error = set_load(reader, load, name, value);
    if (error == 0 && (load->rate_per_s == 0) == (load->burst == 0))
        return fail(reader, "a load has either rate, or burst and every", "load");
    return error;
}

static int line_fault(const struct reader *reader, char *rest)
{
    struct weir_sim_plan *plan = &reader->scenario->plan;
    char *value, *next = NULL, *name = strtok_r(rest, " \t", &next);
    int kind = 0;
    while (name && kind < WEIR_SIM_FAULT_KINDS &&
           strcmp(weir_sim_fault_name((enum weir_sim_fault_kind)kind), name) != 0)
        kind++;
    if (name == NULL || kind == WEIR_SIM_FAULT_KINDS || plan->faults_count == WEIR_SIM_FAULTS_MAX)
        return fail(reader, "no such fault, or too many", name ? name : "");
    struct weir_sim_fault *broken = &plan->faults[plan->faults_count++];
    *broken = (struct weir_sim_fault){ .kind = (enum weir_sim_fault_kind)kind, .until_ns = plan->duration_ns };
    int error = 0;
    while (next_word(reader, &next, &name, &value, &error))
        error = set_fault(reader, broken, name, value);
    return error;
}

/* "exact" or, with groups, "exact+leased". */
static int read_modes(const struct reader *reader, struct weir_scenario_way *way, char *names)
{
    uint32_t groups = reader->scenario->groups_count, count = 0;
    char *next = NULL;
    for (char *name = strtok_r(names, "+", &next); name; name = strtok_r(NULL, "+", &next)) {
        const struct weir_sim_mode *mode = weir_sim_mode_find(name);
        if (mode == NULL)
            mode = weir_naive_find(name);
        if (mode == NULL)
            return fail(reader, "no such way", name);
        if (count < groups)
            way->modes[count] = mode;
        count++;
    }
    return count == groups && groups > 0 ? 0 : fail(reader, "one way for each group, after their loads", names);
}

static int line_way(const struct reader *reader, char *rest)
{
    struct weir_scenario *scenario = reader->scenario;
    if (scenario->ways_count == WEIR_SCENARIO_WAYS_MAX)
        return fail(reader, "too many ways", rest);
    struct weir_scenario_way *way = &scenario->ways[scenario->ways_count++];
    *way = (struct weir_scenario_way){ .plan = scenario->plan };
    char *colon = strstr(rest, " : ");
    if (colon == NULL)
        return fail(reader, "a way ends with \" : label\"", rest);
    *colon = '\0';
    snprintf(way->label, sizeof(way->label), "%s", colon + 3);
    char *name, *value, *next = NULL, *names = strtok_r(rest, " \t", &next);
    int error = names ? read_modes(reader, way, names) : fail(reader, "a way has a name", "way");
    while (next_word(reader, &next, &name, &value, &error))
        error = set_plan(reader, &way->plan, name, value);
    if (error == 0 && way->plan.duration_ns == 0)
        error = fail(reader, "must be above 0", "span");
    if (error == 0 && way->plan.calm_ns > way->plan.duration_ns)
        error = fail(reader, "its calm is longer than its span", way->label);
    return error;
}

static int line_say(const struct reader *reader, char *rest)
{
    struct weir_scenario *scenario = reader->scenario;
    if (scenario->says_count == WEIR_SCENARIO_SAYS_MAX)
        return fail(reader, "too much to say", rest);
    snprintf(scenario->says[scenario->says_count++], WEIR_SCENARIO_LINE_MAX, "%s", rest);
    return 0;
}

static int line_title(const struct reader *reader, char *rest)
{
    snprintf(reader->scenario->title, sizeof(reader->scenario->title), "%s", rest);
    return 0;
}

static int read_line(const struct reader *reader, char *line)
{
    static const struct {
        const char *word;
        int (*read)(const struct reader *reader, char *rest);
    } words[] = { { "title", line_title }, { "set", line_set },     { "load", line_load }, { "way", line_way },
                  { "fault", line_fault }, { "group", line_group }, { "say", line_say } };
    line[strcspn(line, "#\r\n")] = '\0';
    line += strspn(line, " \t");
    size_t size = strcspn(line, " \t");
    if (size == 0)
        return 0;
    char *rest = line + size + strspn(line + size, " \t");
    line[size] = '\0';
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i].word, line) == 0)
            return words[i].read(reader, rest);
    }
    return fail(reader, "no such line", line);
}

int weir_scenario_load(const char *path, struct weir_scenario *ret_scenario, char *error, size_t error_size)
{
    struct weir_scenario *scenario = calloc(1, sizeof(*scenario));
    FILE *file = fopen(path, "re");
    int status = 0;
    if (file == NULL || scenario == NULL) {
        snprintf(error, error_size, "%s: %s", path, strerror(errno));
        status = WEIR_EIO;
    }
    char line[WEIR_SCENARIO_LINE_MAX];
    struct reader reader = { .scenario = scenario, .path = path, .error = error, .error_size = error_size };
    if (status == 0)
        weir_sim_plan_init(&scenario->plan, NULL);
    while (status == 0 && fgets(line, sizeof(line), file)) {
        reader.line++;
        status = read_line(&reader, line);
    }
    if (status == 0 && scenario->ways_count == 0)
        status = fail(&reader, "there is no way", "way");
    if (status == 0)
        *ret_scenario = *scenario;
    if (file)
        fclose(file);
    free(scenario);
    return status;
}
