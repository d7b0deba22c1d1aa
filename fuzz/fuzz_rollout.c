/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of a rollout. The input is two sets of rules with a line "%%" between them: as they are, and as they are to
 * be. Whatever they are, the step is refused, or what comes of it is a set of rules that differs from the first in
 * rollouts alone, and whose limits have at last what the second says. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "rules/rollout.h"
#include "rules/rollout_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct weir_config_faults faults;

static const struct weir_config_limit *find(const struct weir_config *config, const char *name)
{
    for (size_t i = 0; i < config->limits_count; i++)
        if (strcmp(config->limits[i].name, name) == 0)
            return &config->limits[i];
    return NULL;
}

static void made_check(const struct weir_config *config, struct weir_slice made, struct weir_slice target)
{
    struct weir_config *is = NULL, *wanted = NULL;
    weir_assert(weir_config_with_rules(config, made, &is, &faults) == 0);
    weir_assert(weir_config_with_rules(config, target, &wanted, &faults) == 0);
    weir_assert(is->limits_count == wanted->limits_count && is->unmatched == wanted->unmatched);
    for (size_t i = 0; i < is->limits_count; i++) {
        const struct weir_config_limit *limit = &is->limits[i], *last = find(wanted, limit->name);
        const struct weir_limit_spec *spec = limit->rollout ? &limit->overrides[limit->overrides_count - 1].spec
                                                            : &limit->spec;
        weir_assert(last && spec->count == last->spec.count && spec->period_ns == last->spec.period_ns);
        weir_assert(spec->mode == last->spec.mode && weir_limit_capacity(spec) == weir_limit_capacity(&last->spec));
    }
    weir_config_destroy(is);
    weir_config_destroy(wanted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char file[] = "rules: { store: \"sqlite:/x\" }\n";
    const uint8_t *middle = memmem(data, size, "\n%%\n", 4);
    struct weir_config *config = NULL;
    char *text = NULL;
    size_t text_size = 0;
    if (!middle)
        return 0;
    const struct weir_slice base = { data, (size_t)(middle - data) + 1 };
    const struct weir_slice target = { middle + 4, size - (size_t)(middle + 4 - data) };
    const uint32_t share = 1 + (uint32_t)(size % WEIR_ROLLOUT_ALL);
    weir_assert(weir_config_parse(file, sizeof(file) - 1, &config, NULL) == 0);
    int error = weir_rollout_text(config, base, target, share, &text, &text_size, &faults);
    if (!error) {
        const struct weir_slice made = { text, text_size };
        made_check(config, made, target);
        weir_assert(share == WEIR_ROLLOUT_ALL || weir_rollout_same_base(config, base, made));
        weir_assert(weir_rollout_same_base(config, made, made));
    } else {
        weir_assert(faults.count >= 1 && faults.count <= WEIR_CONFIG_FAULTS_MAX && faults.list[0].text[0]);
    }
    free(text);
    weir_config_destroy(config);
    return 0;
}
