#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lab_fence.sh FILE: FILE as a C array that ends with a 0, so that weir-lab carries the functions that it loads. As signed
# numbers, which a char takes as they are.
set -eu
cat <<'HEAD'
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lab_fence.h"

const char weir_lab_fence_text[] = {
HEAD
od -An -v -td1 "$1" | sed -e 's/  */,/g' -e 's/^,//' -e 's/$/,/'
echo '0 };'
