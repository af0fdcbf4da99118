/* SPDX-License-Identifier: GPL-2.0 */
#include <asm/msr-index.h>
#include "stand_in.h"
