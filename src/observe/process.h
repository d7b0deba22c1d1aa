/* SPDX-License-Identifier: Apache-2.0
 *
 * What Prometheus' clients say of every process, under the names that its dashboards know: processor time, memory,
 * descriptors, the start. From /proc; what cannot be read there is left out. */
#pragma once

#include "observe/prometheus.h"

void weir_process_metrics(struct weir_prometheus *out);
